"""The facts that are spread over the host, read once for all functions of a scan.

Classes and buses are always listed. A rescan does not ask again, entry by entry, what the last scan
was told of functions that are to be kept; but whoever has another entry than before is not kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from agent.discovery.functions import Host
from agent.discovery.sight import Sight, Tables
from agent.host import auxiliary, netdev, pci, rdma, sysfs, vdpa
from agent.host.devlink import DevlinkFacts

_NO_SIGHT = Sight()


@attrs.frozen
class Folders:
    """What a scan has open."""

    sys: int
    dev: int | None
    bus: int
    """``bus/pci/devices``."""
    class_net: int | None


@attrs.frozen
class Asked:
    """What was asked before the tables are read, since the answers may take firmware's time."""

    devlink: DevlinkFacts = DevlinkFacts()
    ddptool: str | None = None


def read_whole(folders: Folders, asked: Asked) -> tuple[Host, Tables]:
    """Everything that the host tells now."""
    return _read(folders, asked, _NO_SIGHT, ())


def read_changed(
    folders: Folders, asked: Asked, before: Sight, touched: Collection[str]
) -> tuple[Host, Tables, Collection[str]] | None:
    """The same, and which functions are to be read anew; None = it takes a whole scan to tell.

    Tables are read again where they show that more changed than was named, since they were not
    asked in full of functions that were to be kept.
    """
    fresh = before.closure(touched)
    while True:
        host, tables = _read(folders, asked, before, fresh)
        if tables.auxiliary.unplaced or before.tables.auxiliary.unplaced:
            return None
        gone = before.functions.keys() - host.folders.keys()
        more = before.closure(gone | before.changed_in(host)) - fresh
        if not more:
            return host, tables, fresh
        fresh |= more


def _read(
    folders: Folders, asked: Asked, known: Sight, fresh: Collection[str]
) -> tuple[Host, Tables]:
    """The tables; of functions that are not ``fresh`` those facts are taken that are known."""
    listed = frozenset(sysfs.listing(folders.bus))
    host = Host(
        sys=folders.sys,
        bus=folders.bus,
        net=netdev.read_class(folders.class_net, known.netdevs_of_others(fresh)),
        folders=_in_bus_order(listed, known.tables),
        rdma=rdma.read_host(folders.sys, folders.dev, known.tables.rdma, known.owners_at(fresh)),
        vdpa=vdpa.read_bus(folders.sys),
        auxiliary=auxiliary.read_bus(folders.sys, known.parents_of_others(fresh)),
        devlink=asked.devlink,
        ddptool=asked.ddptool,
    )
    return host, Tables(
        listed=listed,
        folders=host.folders,
        interfaces=host.net.names,
        rdma=host.rdma,
        vdpa=host.vdpa,
        auxiliary=host.auxiliary,
        devlink=host.devlink,
    )


def _in_bus_order(listed: frozenset[str], known: Tables) -> Mapping[str, str]:
    return known.folders if listed == known.listed else pci.in_bus_order(listed)

"""The facts that are spread over the host, read once for all functions of a scan.

Classes and buses are always listed. A rescan does not ask again, entry by entry, what the last scan
was told of functions that are to be kept; but whoever has another entry than before is not kept.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection

from agent.attrs_classes import frozen
from agent.discovery.functions import ScanContext
from agent.discovery.scan_cache import HostTables, ScanCache
from agent.host import auxiliary, netdev, pci, rdma, sysfs, vdpa, vfio
from agent.host.devlink import DevlinkFacts


@frozen
class OpenFolders:
    """What a scan has open."""

    sys: int
    dev: int | None
    bus: int
    """``bus/pci/devices``."""
    class_net: int | None


@frozen
class DevlinkAnswer:
    """What was asked before the tables are read, since the answers may take firmware's time."""

    devlink: DevlinkFacts = DevlinkFacts()
    ddptool: str | None = None
    altnames: Callable[[str], tuple[str, ...]] | None = None
    """Returns the alternative names of a netdev; None = they are not wanted."""
    classes: tuple[str, ...] = ()
    """PCI classes beside the agent's own that pools ask for, as hex digits."""


def read_whole(
    folders: OpenFolders, asked: DevlinkAnswer, before: ScanCache
) -> tuple[ScanContext, HostTables]:
    """Everything that the host tells now; what it told before is the same object."""
    return _read(folders, asked, before, None)


def read_changed(
    folders: OpenFolders, asked: DevlinkAnswer, before: ScanCache, touched: Collection[str]
) -> tuple[ScanContext, HostTables, Collection[str]] | None:
    """The same, and which functions are to be read anew; None = it takes a whole scan to tell.

    Tables are read again where they show that more changed than was named, since they were not
    asked in full of functions that were to be kept.
    """
    fresh = before.affected_by(touched)
    while True:
        host, tables = _read(folders, asked, before, fresh)
        if tables.auxiliary.unplaced or before.tables.auxiliary.unplaced:
            return None
        more = before.affected_by(before.gone_from(host) | before.changed_in(host, tables)) - fresh
        if not more:
            return host, tables, fresh
        fresh |= more


def _read(
    folders: OpenFolders, asked: DevlinkAnswer, before: ScanCache, fresh: Collection[str] | None
) -> tuple[ScanContext, HostTables]:
    """The tables; of functions that are not ``fresh`` those facts are taken that are known.

    None = all are.
    """
    known = before.tables
    others = () if fresh is None else before.netdevs_of_others(fresh)
    owners = None if fresh is None else before.owners_at(fresh)
    parents = None if fresh is None else before.parents_of_others(fresh)
    listed = sysfs.listing_again(folders.bus, known.listed)
    if known.listed and not listed and os.fstat(folders.bus).st_ino != known.bus_inode:
        raise OSError(errno.ENOENT, "another folder took its place, and is empty", pci.BUS)
    host = ScanContext(
        sys=folders.sys,
        bus=folders.bus,
        net=netdev.read_class(folders.class_net, known.interfaces, others),
        folders=known.folders if listed is known.listed else pci.in_bus_order(listed),
        rdma=rdma.read_host(folders.sys, folders.dev, known.rdma, owners),
        vdpa=vdpa.read_bus(folders.sys),
        auxiliary=auxiliary.read_bus(folders.sys, parents),
        devlink=asked.devlink,
        vfio_groups=vfio.groups(folders.sys) if fresh is None else frozenset(),
        ddptool=asked.ddptool,
        classes=asked.classes,
        altnames=asked.altnames,
    )
    return host, HostTables(
        listed=listed,
        bus_inode=os.fstat(folders.bus).st_ino,
        folders=host.folders,
        interfaces=host.net.names,
        rdma=host.rdma,
        vdpa=host.vdpa,
        auxiliary=host.auxiliary,
        devlink=host.devlink,
    )

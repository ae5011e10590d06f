"""Reads the facts that are not in the functions' own folders, once for all functions of a scan.

Classes and buses are always listed. A rescan does not read each entry of functions that are kept;
but a function whose entries differ from the last scan's is read again.
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
    """The folders that a scan has open."""

    sys: int
    dev: int | None
    bus: int
    """``bus/pci/devices``."""
    class_net: int | None


@frozen
class DevlinkAnswer:
    """Facts that are read before the tables, since firmware may take long to answer."""

    devlink: DevlinkFacts = DevlinkFacts()
    ddptool: str | None = None
    altnames: Callable[[str], tuple[str, ...]] | None = None
    """Returns the alternative names of a netdev; None = they are not needed."""
    classes: tuple[str, ...] = ()
    """PCI classes that pools select in addition to the agent's own, as hex digits."""


def read_whole(
    folders: OpenFolders, answer: DevlinkAnswer, before: ScanCache
) -> tuple[ScanContext, HostTables]:
    """Read all tables; unchanged results stay the same objects."""
    return _read(folders, answer, before, None)


def read_changed(
    folders: OpenFolders, answer: DevlinkAnswer, before: ScanCache, touched: Collection[str]
) -> tuple[ScanContext, HostTables, Collection[str]] | None:
    """Read the tables, and find the functions to read again; None = a full scan is needed.

    If the tables show that more functions changed than ``touched`` names, they are read again,
    since not every entry of functions that were to be kept was read.
    """
    fresh = before.affected_by(touched)
    while True:
        host, tables = _read(folders, answer, before, fresh)
        if tables.auxiliary.unplaced or before.tables.auxiliary.unplaced:
            return None
        more = before.affected_by(before.gone_from(host) | before.changed_in(host, tables)) - fresh
        if not more:
            return host, tables, fresh
        fresh |= more


def _read(
    folders: OpenFolders, answer: DevlinkAnswer, before: ScanCache, fresh: Collection[str] | None
) -> tuple[ScanContext, HostTables]:
    """Read the tables; facts of functions that are not ``fresh`` are those of the previous scan.

    None = all functions are fresh.
    """
    previous = before.tables
    others = () if fresh is None else before.netdevs_of_others(fresh)
    owners = None if fresh is None else before.owners_at(fresh)
    parents = None if fresh is None else before.parents_of_others(fresh)
    listed = sysfs.listing_again(folders.bus, previous.listed)
    if previous.listed and not listed and os.fstat(folders.bus).st_ino != previous.bus_inode:
        raise OSError(errno.ENOENT, "was replaced by an empty folder", pci.BUS)
    host = ScanContext(
        sys=folders.sys,
        bus=folders.bus,
        net=netdev.read_class(folders.class_net, previous.interfaces, others),
        folders=previous.folders if listed is previous.listed else pci.in_bus_order(listed),
        rdma=rdma.read_host(folders.sys, folders.dev, previous.rdma, owners),
        vdpa=vdpa.read_bus(folders.sys),
        auxiliary=auxiliary.read_bus(folders.sys, parents),
        devlink=answer.devlink,
        vfio_groups=vfio.groups(folders.sys) if fresh is None else frozenset(),
        ddptool=answer.ddptool,
        classes=answer.classes,
        altnames=answer.altnames,
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

"""Scans the host into a Snapshot: one synchronous pass, in a worker thread.

A scan makes thousands of small reads: first the facts that are not in the functions' own folders
(RDMA nodes, vDPA and auxiliary buses, devlink, routes), then every function, PFs before VFs. A
rescan after a hint that names what changed reads only that (docs/adr/0012-partial-rescan.md).
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from collections.abc import Set as AbstractSet
from operator import attrgetter
from pathlib import Path

from agent.attrs_classes import frozen
from agent.discovery.function_scan import FunctionScan
from agent.discovery.functions import Skipped
from agent.discovery.host_tables import DevlinkAnswer, OpenFolders, read_changed, read_whole
from agent.discovery.scan_cache import HostTables, Outcome, ScanCache
from agent.host import (
    addresses,
    ddptool,
    devlink,
    netdev,
    pci,
    rdma,
    route_rules,
    routes,
    sysfs,
)
from agent.host.addresses import OwnRoutes
from agent.host.altnames import ALTNAMES, altnames_of
from agent.host.altnames import from_file as altnames_from_file
from agent.host.devlink import DevlinkFacts
from agent.host.nodes import NodeReader, view_of
from agent.host.rdma import RdmaHost
from agent.model.device import Device, Netdev, OtherFunction, Role
from agent.model.nodes import HostNodes
from agent.model.pci_class import needed_classes
from agent.model.snapshot import Snapshot, vf_lags
from agent.roots import Roots

_EMPTY_CACHE = ScanCache()


def scan(
    roots: Roots,
    *,
    netlink: bool = False,
    needs: frozenset[str] = frozenset(),
) -> Snapshot:
    """Read all facts about this host's functions that can be read now.

    With ``netlink``, routes, devlink facts and alternative names are read from the kernel by
    netlink; otherwise from procfs, ``devlink.json`` and ``altnames.json`` below the host root.
    ``needs`` names facts that are read only on request (``devlink.DDP``, ``devlink.ENABLE_RDMA``,
    ``ALTNAMES``), since they cost time; firmware answers those of devlink. A host without a PCI
    bus has no functions.
    Raises OSError if the process is out of descriptors or memory, and if sysfs, its PCI bus or a
    class that lists devices cannot be read, or is missing though an earlier scan saw it: that must
    not look like a host whose devices are gone.
    """
    return Scanner(roots, netlink=netlink).scan(needs=needs)


class Scanner:
    """Scans one host repeatedly; unchanged records stay the same objects.

    For one thread at a time. Arguments are those of :func:`scan`.
    """

    def __init__(self, roots: Roots, *, netlink: bool = False) -> None:
        self._roots = roots
        self._netlink = netlink
        self._cache = _EMPTY_CACHE
        self._nodes = HostNodes()
        self._node_reader = NodeReader()
        self._needs: frozenset[str] | None = None
        """The needs of the last scan; None = there is no scan that a rescan could start from."""
        self.whole = 0
        """The number of full scans."""

    @property
    def nodes(self) -> HostNodes:
        """The device nodes of the last scan."""
        return self._nodes

    @property
    def rdma(self) -> RdmaHost:
        """The RDMA devices of the last scan and their nodes."""
        return self._cache.tables.rdma

    def scan(
        self,
        *,
        needs: frozenset[str] = frozenset(),
        touched: Collection[str] | None = None,
    ) -> Snapshot:
        """Read the host; with ``touched``, only the facts of these devices are read again.

        ``touched`` names functions and auxiliary devices that may have changed since the last
        scan; None = anything may have changed.
        """
        is_whole = touched is None or needs != self._needs
        self.whole += is_whole
        self._needs = None
        snapshot = self._look(needs, None if is_whole else touched)
        self._needs = needs
        return snapshot

    def _look(self, needs: frozenset[str], touched: Collection[str] | None) -> Snapshot:
        with sysfs.class_folder(self._roots.sys) as sys, sysfs.folder(self._roots.dev) as dev:
            if sys is None:
                self._require_none(self._roots.sys)
                self._cache = _EMPTY_CACHE
                return Snapshot()
            return self._look_below(sys, dev, needs, touched)

    def _look_below(
        self,
        sys: int,
        dev: int | None,
        needs: frozenset[str],
        touched: Collection[str] | None,
    ) -> Snapshot:
        with (
            sysfs.class_folder(pci.BUS, sys) as bus,
            sysfs.class_folder(netdev.CLASS, sys) as class_net,
        ):
            if class_net is None and self._cache.tables.interfaces:
                raise _missing(self._roots.sys / netdev.CLASS)
            if bus is None:
                self._require_none(self._roots.sys / pci.BUS)
                names = netdev.read_class(class_net).names
                self._cache = ScanCache(HostTables(interfaces=names), unowned=frozenset(names))
                return self._snapshot(class_net, rdma.read_host(sys, dev))
            folders = OpenFolders(sys, dev, bus, class_net)
            reading = self._read(folders, self._asked(needs), touched)
            rdma_host = self._cache.tables.rdma
            view = view_of(self._roots)
            rdma_cm = rdma_host.rdma_cm
            self._nodes = self._node_reader.read(sys, dev, view, reading.devices, rdma_cm=rdma_cm)
            return self._snapshot(class_net, rdma_host, reading)

    def _require_none(self, missing: Path) -> None:
        """Raises OSError if the last scan saw functions: they still exist, but cannot be read."""
        if self._cache.functions:
            raise _missing(missing)

    def _asked(self, needs: frozenset[str]) -> DevlinkAnswer:
        facts = _devlink_facts(self._roots, netlink=self._netlink, needs=needs)
        wants_ddptool = self._netlink and devlink.DDP in needs and not facts.ddp
        program = ddptool.program() if wants_ddptool else None
        names = _altnames(self._roots, netlink=self._netlink) if ALTNAMES in needs else None
        return DevlinkAnswer(facts, program, names, needed_classes(needs))

    def _read(
        self, folders: OpenFolders, asked: DevlinkAnswer, touched: Collection[str] | None
    ) -> FunctionScan:
        """Read all functions, or those that were touched, and keep the result for the next scan."""
        before = self._cache
        changed = None if touched is None else read_changed(folders, asked, before, touched)
        kept: dict[str, Outcome] = {}
        if changed is None:
            host, tables = read_whole(folders, asked, before)
        else:
            host, tables, fresh = changed
            kept.update(before.functions)
            for bdf in fresh:
                kept.pop(bdf, None)
        reading = FunctionScan(host, before, kept)
        reading.run()
        self._cache = reading.cache(tables)
        return reading

    def _snapshot(
        self,
        class_net: int | None,
        rdma_host: RdmaHost,
        reading: FunctionScan | None = None,
    ) -> Snapshot:
        devices = reading.devices if reading else ()
        interfaces = self._cache.netdevs_of_vfs_and_sfs()
        host_routes = _host_routes(self._roots, interfaces, netlink=self._netlink)
        parents = tuple(_netdev_parents(class_net, self._cache.unowned))
        return Snapshot(
            devices=devices,
            default_route_netdevs=host_routes.default,
            addressed_netdevs=host_routes.own.addressed,
            routed_netdevs=host_routes.own.routed,
            masters=tuple(_masters(class_net, parents, interfaces)),
            netdev_parents=parents,
            bonds=tuple(_bonds(class_net, devices)),
            skipped_classes=_skipped(reading.skipped) if reading else (),
            passed_over=tuple((o.address, o.pci_class) for o in reading.skipped) if reading else (),
            missing_rdma_modules=(
                rdma_host.missing_modules if any(map(attrgetter("rdma"), devices)) else ()
            ),
            nodes=self._nodes,
            group_mates=tuple(_group_mates(reading)) if reading else (),
            unreadable=tuple(sorted(reading.unreadable)) if reading else (),
        )


def _missing(path: Path) -> OSError:
    return FileNotFoundError(errno.ENOENT, "is missing, though an earlier scan saw it", str(path))


def _group_mates(reading: FunctionScan) -> Iterator[OtherFunction]:
    """Functions of other classes that share an IOMMU group with a device bound to vfio."""
    others = {o.iommu_group for o in reading.skipped} - {None}
    groups = {d.iommu_group for d in reading.devices if d.iommu_group in others and d.is_vfio}
    for outcome in reading.skipped if groups else ():
        if outcome.iommu_group is not None and outcome.iommu_group in groups:
            yield OtherFunction(
                outcome.address, outcome.pci_class, outcome.driver, outcome.iommu_group
            )


def _skipped(outcomes: Iterable[Skipped]) -> tuple[tuple[str, int], ...]:
    """The number of skipped functions of each class."""
    classes = Counter(f"0x{o.pci_class >> 8:04x}" for o in outcomes)
    return tuple(sorted(classes.items()))


def _netdev_parents(
    class_net: int | None, others: AbstractSet[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The lower interfaces of those that belong to no function: bonds, bridges, VLANs."""
    if class_net is None:
        return
    for name in sorted(others):
        lowers = netdev.lowers(class_net, name)
        if lowers:
            yield name, lowers


def _bonds(class_net: int | None, devices: Iterable[Device]) -> Iterator[Netdev]:
    """The bonds that join several PFs of one eswitch."""
    if class_net is None:
        return
    for name in sorted(vf_lags(d for d in devices if d.role is Role.PF)):
        bond = netdev.read_bond(class_net, name)
        if bond is not None:
            yield bond


def _masters(
    class_net: int | None,
    parents: Iterable[tuple[str, tuple[str, ...]]],
    interfaces: Container[str],
) -> Iterator[tuple[str, str]]:
    """The masters of some interfaces; only interfaces with an upper one are read."""
    if class_net is None:
        return
    stacked = {lower for _, lowers in parents for lower in lowers if lower in interfaces}
    for name in sorted(stacked):
        master = sysfs.link_name(class_net, f"{name}/master")
        if master is not None:
            yield name, master


@frozen
class _HostRoutes:
    """Interfaces that the host's routing uses."""

    default: tuple[str, ...] = ()
    """The output interfaces of default routes."""
    own: OwnRoutes = OwnRoutes()


def _host_routes(roots: Roots, interfaces: Container[str], *, netlink: bool) -> _HostRoutes:
    """Read by netlink if it is allowed and works, else from procfs."""
    if netlink:
        try:
            tables = route_rules.tables_in_use()
            default = routes.from_kernel(tables)
            return _HostRoutes(default, addresses.from_kernel(interfaces, tables))
        except OSError as error:
            sysfs.raise_if_exhausted(error)
    with sysfs.folder(roots.proc) as proc:
        if proc is None:
            return _HostRoutes()
        return _HostRoutes(routes.from_procfs(proc), addresses.from_procfs(proc, interfaces))


def _devlink_facts(roots: Roots, *, netlink: bool, needs: frozenset[str]) -> DevlinkFacts:
    if netlink:
        return devlink.from_kernel(needs)
    with sysfs.folder(roots.host) as host:
        return devlink.from_file(host) if host is not None else DevlinkFacts()


def _altnames(roots: Roots, *, netlink: bool) -> Callable[[str], tuple[str, ...]]:
    """A function that returns a netdev's alternative names, of the kernel or a laid-out host."""
    if netlink:
        return altnames_of
    with sysfs.folder(roots.host) as host:
        names = altnames_from_file(host) if host is not None else {}
    return lambda netdev: names.get(netdev, ())

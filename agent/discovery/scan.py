"""One synchronous scan of the host into a Snapshot, for one worker thread.

Thousands of tiny reads in one go: facts that are spread over the host (RDMA nodes, vDPA and
auxiliary buses, devlink, routes) are read once, then every function once, PFs before VFs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain

import attrs

from agent.discovery.functions import (
    Host,
    Pf,
    Skipped,
    Unreadable,
    VfOf,
    read_auxiliary,
    read_pf,
    read_vf,
)
from agent.host import (
    auxiliary,
    ddptool,
    devlink,
    netdev,
    pci,
    rdma,
    routes,
    switchdev,
    sysfs,
    vdpa,
)
from agent.host.devlink import DevlinkFacts
from agent.host.switchdev import Representor
from agent.model.address import bdf_order
from agent.model.device import Device, Kind
from agent.model.snapshot import Snapshot
from agent.roots import Roots


def scan(
    roots: Roots,
    *,
    generation: int = 0,
    netlink: bool = False,
    needs: frozenset[str] = frozenset(),
) -> Snapshot:
    """Everything about this host's functions, as far as it can be read now.

    ``netlink`` says whether the kernel may be asked for routes and devlink facts; otherwise they
    come from procfs and ``devlink.json`` below the host root. ``needs`` names the devlink facts
    that somebody wants (``devlink.DDP``, ``devlink.ENABLE_RDMA``), since asking the kernel for
    them may take firmware's time. A host without a PCI bus has no functions. Raises OSError only
    where the process itself is out of descriptors or memory.
    """
    with sysfs.folder(roots.sys) as sys, sysfs.folder(roots.dev) as dev:
        if sys is None:
            return Snapshot(generation=generation)
        rdma_host = rdma.read_host(sys, dev)
        found = _Found()
        with sysfs.folder(pci.BUS, sys) as bus, sysfs.folder(netdev.CLASS, sys) as class_net:
            if bus is not None:
                facts = _devlink_facts(roots, netlink=netlink, needs=needs)
                wants_ddptool = netlink and devlink.DDP in needs and not facts.ddp
                host = Host(
                    sys=sys,
                    bus=bus,
                    net=netdev.read_class(class_net),
                    folders=pci.functions(bus),
                    rdma=rdma_host,
                    vdpa=vdpa.read_bus(sys),
                    auxiliary=auxiliary.read_bus(sys),
                    devlink=facts,
                    ddptool=ddptool.program() if wants_ddptool else None,
                )
                _read_functions(host, found)
            parents = tuple(_netdev_parents(class_net, found.netdev_names))
    devices = found.in_bus_order()
    return Snapshot(
        generation=generation,
        devices=devices,
        default_route_netdevs=_default_routes(roots, netlink=netlink),
        netdev_parents=parents,
        skipped_classes=tuple(sorted(found.skipped.items())),
        missing_rdma_modules=(rdma_host.missing_modules if any(d.rdma for d in devices) else ()),
        rdma_cm=rdma_host.rdma_cm,
        unreadable=tuple(sorted(found.unreadable)),
    )


@attrs.define
class _Found:
    """What the functions amount to, while they are being read."""

    devices: dict[str, list[Device]] = attrs.field(factory=dict)
    """By PCI address: the function, then its auxiliary devices."""
    skipped: Counter[str] = attrs.field(factory=Counter)
    unreadable: list[tuple[str, str]] = attrs.field(factory=list)
    netdev_names: set[str] = attrs.field(factory=set)

    def note(self, outcome: Device | Skipped | Unreadable | None) -> None:
        """Take in what reading one function came to."""
        if isinstance(outcome, Device):
            self.devices.setdefault(outcome.pci_address, []).append(outcome)
            if outcome.netdevs:
                self.netdev_names.update(n.name for n in outcome.netdevs)
        elif isinstance(outcome, Skipped):
            self.skipped[f"0x{outcome.pci_class >> 8:04x}"] += 1
        elif outcome is not None:
            self.unreadable.append((outcome.bdf, outcome.attribute))

    def in_bus_order(self) -> tuple[Device, ...]:
        """The functions as the bus has them, each followed by its auxiliary devices."""
        addresses = sorted(self.devices, key=pci.bus_order)
        return tuple(chain.from_iterable(map(self.devices.__getitem__, addresses)))


def _read_functions(host: Host, found: _Found) -> None:
    """PFs first, since their VFs need to know of them; they come first on most buses anyway."""
    pf_of_vf: dict[str, str] = {}
    pfs: dict[str, Pf] = {}
    for bdf in host.folders:
        if bdf in pf_of_vf:
            continue
        outcome = read_pf(host, bdf)
        if isinstance(outcome, Pf):
            pfs[bdf] = outcome
            pf_of_vf.update(dict.fromkeys(outcome.index_of, bdf))
            found.note(outcome.device)
            found.netdev_names.update(outcome.eswitch.names)
        elif isinstance(outcome, VfOf):
            pf_of_vf[bdf] = outcome.pf_address
        else:
            found.note(outcome)
    pfs = dict(_with_ports(host, pfs, found.netdev_names))
    for bdf, pf_address in pf_of_vf.items():
        if bdf in host.folders:
            found.note(read_vf(host, bdf, pfs.get(pf_address) or Pf(pf_address)))
    _read_auxiliary_devices(host, pfs, found)


def _read_auxiliary_devices(host: Host, pfs: Mapping[str, Pf], found: _Found) -> None:
    """Those directly below a network function of this host; accelerators' are not asked for."""
    if host.auxiliary.is_empty:
        return
    for (parent,) in tuple(found.devices.values()):
        if parent.kind is not Kind.NET_DEVICE:
            continue
        pf = pfs.get(parent.pf_address or "") or Pf(parent.pf_address or parent.id)
        names = pf.aux_names if pf.device is parent else host.auxiliary.below(parent.id)
        for name in sorted(names, key=auxiliary.order):
            found.note(read_auxiliary(host, name, parent, pf))


def _with_ports(host: Host, pfs: Mapping[str, Pf], owned: set[str]) -> Iterator[tuple[str, Pf]]:
    """Give every PF the representors of its VFs and SFs, wherever their netdevs lie."""
    elsewhere: dict[str, list[Representor]] = defaultdict(list)
    if any(pf.eswitch.switch_id for pf in pfs.values()):
        below = (r for pf in pfs.values() for r in pf.eswitch.representors)
        for representor in (*below, *_stray_representors(host, owned)):
            elsewhere[representor.switch_id or ""].append(representor)
    for bdf, pf in pfs.items():
        others = elsewhere.get(pf.eswitch.switch_id or "", ())
        if others or pf.eswitch.representors:
            ports = switchdev.ports_of(pf.eswitch, bdf_order(bdf)[3], others)
            yield bdf, attrs.evolve(pf, ports=ports)
        else:
            yield bdf, pf


def _stray_representors(host: Host, owned: set[str]) -> Iterator[Representor]:
    """Representors that no function's folder lists."""
    if host.net.folder is None:
        return
    for name in sysfs.listing(host.net.folder):
        if name in owned:
            continue
        with sysfs.folder(name, host.net.folder) as folder:
            port = netdev.read_port(folder, name) if folder is not None else None
            representor = switchdev.representor_of(port) if port else None
            if representor is not None:
                owned.add(name)
                yield representor


def _netdev_parents(
    class_net: int | None, owned: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What every interface rests on that belongs to no function: bonds, bridges, VLANs."""
    if class_net is None:
        return
    for name in sorted(set(sysfs.listing(class_net)) - owned):
        lowers = netdev.lowers(class_net, name)
        if lowers:
            yield name, lowers


def _default_routes(roots: Roots, *, netlink: bool) -> tuple[str, ...]:
    """From the kernel where it may be asked and answers, else from procfs."""
    if netlink:
        try:
            return routes.from_kernel()
        except OSError as error:
            sysfs.raise_if_exhausted(error)
    with sysfs.folder(roots.proc) as proc:
        return routes.from_procfs(proc) if proc is not None else ()


def _devlink_facts(roots: Roots, *, netlink: bool, needs: frozenset[str]) -> DevlinkFacts:
    if netlink:
        return devlink.from_kernel(needs)
    with sysfs.folder(roots.host) as host:
        return devlink.from_file(host) if host is not None else DevlinkFacts()

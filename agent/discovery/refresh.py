"""Facts of a few devices, read anew: for Allocate, which must not trust a scan of a moment ago."""

from __future__ import annotations

import errno

import attrs

from agent.discovery.functions import Pf, ScanContext, read_auxiliary, read_pf, read_vf
from agent.host import auxiliary, netdev, pci, rdma, sysfs, vdpa
from agent.host.netdev import NetClass
from agent.host.nodes import read_again, view_of
from agent.host.rdma import RdmaHost
from agent.model.device import Device, Role
from agent.model.nodes import HostNodes
from agent.roots import Roots


def refresh(
    roots: Roots, devices: tuple[Device, ...], known: RdmaHost | None = None
) -> tuple[Device, ...]:
    """The devices as they are now, those that are gone left out; for a worker thread.

    Raises OSError where sysfs or its PCI bus cannot be read.

    What a scan knows of the host's RDMA devices spares asking about those of all others. Facts of
    their PF (its name, VF indexes, representors) and of devlink are those of the given
    devices: they do not change by themselves, and only a scan reads them.
    """
    with (
        sysfs.class_folder(roots.sys) as sys,
        sysfs.folder(roots.dev) as dev,
        sysfs.class_folder(roots.sys / pci.BUS) as bus,
        sysfs.class_folder(roots.sys / netdev.CLASS) as class_net,
    ):
        if sys is None or bus is None:
            raise FileNotFoundError(errno.ENOENT, "is missing", str(roots.sys / pci.BUS))
        host = ScanContext(
            sys=sys,
            bus=bus,
            net=NetClass(class_net),
            folders={d.pci_address: pci.folder_name(bus, d.pci_address) for d in devices},
            rdma=_rdma_host(sys, dev, devices, known),
            vdpa=vdpa.read_bus(sys),
            classes=("",),  # a scan found that a pool asks for theirs
        )
        read = (_read_again(host, device) for device in devices)
        return tuple(device for device in read if device is not None)


def refresh_nodes(roots: Roots, known: HostNodes, names: frozenset[str]) -> HostNodes:
    """The host's known nodes, with those of ``names`` looked at again; for a worker thread."""
    with sysfs.folder(roots.dev) as dev:
        return read_again(dev, view_of(roots), known, names)


def _rdma_host(
    sys: int, dev: int | None, devices: tuple[Device, ...], known: RdmaHost | None
) -> RdmaHost:
    """The host's RDMA nodes, which are many, only if one of the devices has an RDMA device now."""
    paths = (
        f"{pci.BUS if d.id == d.pci_address else auxiliary.BUS}/{d.id}/infiniband" for d in devices
    )
    if not any(sysfs.exists(sys, p) for p in paths):
        return RdmaHost()
    return rdma.read_host(sys, dev, known, {d.id for d in devices})


def _read_again(host: ScanContext, known: Device) -> Device | None:
    fresh = _read(host, known)
    return fresh and attrs.evolve(
        fresh,
        pf_address=known.pf_address,
        pf_name=known.pf_name,
        index=known.index,
        representor=known.representor,
        rdma_enabled=known.rdma_enabled,
        ddp_profile=known.ddp_profile,
    )


def _read(host: ScanContext, known: Device) -> Device | None:
    if known.role is Role.PF:
        pf = read_pf(host, known.id)
        return pf.device if isinstance(pf, Pf) else None
    if known.role is Role.VF:
        vf = read_vf(host, known.id, Pf(known.pf_address or ""))
        return vf if isinstance(vf, Device) else None
    parent = attrs.evolve(known, id=known.pci_address)
    return read_auxiliary(host, known.id, parent, Pf(known.pf_address or ""))

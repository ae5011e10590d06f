"""Reads the facts of a few devices again: for Allocate, which needs facts newer than a scan's."""

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
    """The devices as they are now, without those that are gone; for a worker thread.

    Raises OSError if sysfs or its PCI bus cannot be read.

    ``known`` has the RDMA devices of the last scan, so that only those of ``devices`` are read.
    Facts of the PF (its name, VF indexes, representors) and of devlink are those of ``devices``:
    they do not change by themselves, and only a scan reads them.
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
    """``known`` with those nodes that are in ``names`` checked again; for a worker thread."""
    with sysfs.folder(roots.dev) as dev:
        return read_again(dev, view_of(roots), known, names)


def _rdma_host(
    sys: int, dev: int | None, devices: tuple[Device, ...], known: RdmaHost | None
) -> RdmaHost:
    """The host's RDMA nodes, read only if one of the devices has an RDMA device now."""
    paths = (
        f"{pci.BUS if d.id == d.pci_address else auxiliary.BUS}/{d.id}/infiniband" for d in devices
    )
    if not any(sysfs.exists(sys, p) for p in paths):
        return RdmaHost()
    return rdma.read_host(sys, dev, known, {d.id for d in devices})


def _read_again(host: ScanContext, device: Device) -> Device | None:
    current = _read(host, device)
    return current and attrs.evolve(
        current,
        pf_address=device.pf_address,
        pf_name=device.pf_name,
        index=device.index,
        representor=device.representor,
        rdma_enabled=device.rdma_enabled,
        ddp_profile=device.ddp_profile,
    )


def _read(host: ScanContext, device: Device) -> Device | None:
    if device.role is Role.PF:
        pf = read_pf(host, device.id)
        return pf.device if isinstance(pf, Pf) else None
    if device.role is Role.VF:
        vf = read_vf(host, device.id, Pf(device.pf_address or ""))
        return vf if isinstance(vf, Device) else None
    parent = attrs.evolve(device, id=device.pci_address)
    return read_auxiliary(host, device.id, parent, Pf(device.pf_address or ""))

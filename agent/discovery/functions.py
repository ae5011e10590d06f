"""From one function's folder to its Device: facts of all readers put together, PFs before VFs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import attrs

from agent.host import auxiliary, ddptool, netdev, pci, rdma, switchdev, sysfs
from agent.host.auxiliary import AuxiliaryBus
from agent.host.devlink import DevlinkFacts
from agent.host.rdma import RdmaHost
from agent.host.switchdev import Eswitch, Port
from agent.kinds import kind_of_class
from agent.model.device import Device, Kind, Netdev, Role, VdpaDevice

_INTEL = "8086"


@attrs.frozen
class Host:
    """What one scan has open, and the facts that were read once for all functions."""

    sys: int
    bus: int
    """Open folder ``bus/pci/devices``."""
    class_net: int | None
    folders: Mapping[str, str]
    """PCI address -> name of its folder on the bus."""
    rdma: RdmaHost = RdmaHost()
    vdpa: Mapping[str, tuple[VdpaDevice, ...]] = attrs.field(factory=dict)
    auxiliary: AuxiliaryBus = AuxiliaryBus()
    devlink: DevlinkFacts = DevlinkFacts()
    ddptool: str | None = None
    """Path of the program to ask for DDP profiles, where it is wanted and there."""


@attrs.frozen
class Pf:
    """A function that is no VF, with what its VFs and SFs need to know of it."""

    device: Device
    index_of: Mapping[str, int]
    eswitch: Eswitch
    aux_names: tuple[str, ...]
    ports: Mapping[Port, str] = attrs.field(factory=dict)
    """Representors by port; filled when those of all PFs are known."""


@attrs.frozen
class Skipped:
    """A function of a class that is not the agent's business."""

    pci_class: int


@attrs.frozen
class Unreadable:
    """A function without an attribute that every function has."""

    bdf: str
    attribute: str


def read_pf(host: Host, bdf: str) -> Pf | Skipped | Unreadable | None:
    """Read a function that is no VF; None where it is gone."""
    folder = sysfs.open_folder(host.folders[bdf], host.bus)
    if folder is None:
        return None
    try:
        pci_class = pci.class_of(folder)
        kind = _kind(folder, pci_class)
        return Skipped(pci_class) if kind is None else _pf(host, folder, bdf, pci_class, kind)
    except pci.MissingAttributeError as error:
        return _unreadable(host, bdf, error.attribute)
    finally:
        os.close(folder)


def read_vf(
    host: Host, bdf: str, pf_address: str, pf: Pf | None
) -> Device | Skipped | Unreadable | None:
    """Read a VF; ``pf`` is None where its PF is not among this host's devices."""
    folder = sysfs.open_folder(host.folders[bdf], host.bus)
    if folder is None:
        return None
    try:
        pci_class = pci.class_of(folder)
        kind = _kind(folder, pci_class)
        if kind is None:
            return Skipped(pci_class)
        return _vf(host, folder, pci.read(folder, bdf, pci_class), kind, pf_address, pf)
    except pci.MissingAttributeError as error:
        return _unreadable(host, bdf, error.attribute)
    finally:
        os.close(folder)


def read_auxiliary(host: Host, name: str, parent: Device, pf: Pf | None) -> Device | None:
    """Read an auxiliary device below a network function; None where it is gone.

    Vendor, device, class, NUMA node and PF are those of the function.
    """
    with sysfs.folder(f"{auxiliary.BUS}/{name}", host.sys) as folder:
        if folder is None:
            return None
        aux_type = auxiliary.type_of(name)
        is_sf = aux_type == auxiliary.SUB_FUNCTION
        index = sysfs.read_int(folder, "sfnum") if is_sf else None
        rdma_devices = rdma.devices_of(folder, host.rdma)
        return Device(
            id=name,
            kind=Kind.AUX_NET_DEVICE,
            role=Role.SF if is_sf else Role.AUX,
            pci_address=parent.id,
            vendor=parent.vendor,
            device=parent.device,
            pci_class=parent.pci_class,
            driver=sysfs.link_name(folder, "driver"),
            numa_node=parent.numa_node,
            pf_address=parent.pf_address,
            pf_name=parent.pf_name,
            index=index,
            netdevs=_whole(host, folder, netdev.below(folder, ("net",))),
            rdma=rdma_devices,
            rdma_enabled=host.devlink.enable_rdma.get(name),
            pkey=rdma.pkey(folder, rdma_devices),
            vdpa=host.vdpa.get(name, ()),
            ddp_profile=parent.ddp_profile,
            aux_type=aux_type,
            representor=pf.ports.get(("sf", index)) if pf and index is not None else None,
        )


def _pf(host: Host, folder: int, bdf: str, pci_class: int, kind: Kind) -> Pf:
    entries = frozenset(sysfs.listing(folder))
    facts = pci.read(folder, bdf, pci_class, entries)
    sriov = pci.sriov(folder, entries)
    eswitch = switchdev.tell_apart(_whole(host, folder, netdev.below(folder, facts.net_folders)))
    rdma_devices = rdma.devices_of(folder, host.rdma) if "infiniband" in entries else ()
    network = kind is Kind.NET_DEVICE
    device = Device(
        id=bdf,
        kind=kind,
        role=Role.PF,
        pci_address=bdf,
        vendor=facts.vendor,
        device=facts.device,
        pci_class=pci_class,
        driver=facts.driver,
        numa_node=facts.numa_node,
        pf_address=bdf,
        pf_name=eswitch.uplink,
        total_vfs=sriov.total_vfs,
        num_vfs=sriov.num_vfs,
        netdevs=eswitch.own,
        iommu_group=facts.iommu_group,
        noiommu=facts.noiommu,
        uio=facts.uio,
        acpi_index=facts.acpi_index,
        rdma=rdma_devices,
        rdma_enabled=host.devlink.enable_rdma.get(bdf),
        pkey=rdma.pkey(folder, rdma_devices),
        vdpa=host.vdpa.get(bdf, ()),
        ddp_profile=_ddp(host, bdf, facts.vendor) if network else None,
    )
    aux_names = tuple(host.auxiliary.below(bdf, entries)) if network else ()
    return Pf(device, sriov.index_of, eswitch, aux_names)


def _vf(
    host: Host, folder: int, facts: pci.PciFunction, kind: Kind, pf_address: str, pf: Pf | None
) -> Device:
    bdf = facts.bdf
    index = pf.index_of.get(bdf) if pf else None
    netdevs = [
        found
        for name, path in netdev.below(folder, facts.net_folders)
        if (found := netdev.read_brief(host.class_net, folder, name, path)) is not None
    ]
    has_rdma = sysfs.exists(folder, "infiniband")
    rdma_devices = rdma.devices_of(folder, host.rdma) if has_rdma else ()
    return Device(
        id=bdf,
        kind=kind,
        role=Role.VF,
        pci_address=bdf,
        vendor=facts.vendor,
        device=facts.device,
        pci_class=facts.pci_class,
        driver=facts.driver,
        numa_node=facts.numa_node,
        pf_address=pf_address,
        pf_name=pf.device.pf_name if pf else None,
        index=index,
        netdevs=tuple(netdevs),
        iommu_group=facts.iommu_group,
        noiommu=facts.noiommu,
        uio=facts.uio,
        acpi_index=facts.acpi_index,
        rdma=rdma_devices,
        rdma_enabled=host.devlink.enable_rdma.get(bdf),
        pkey=rdma.pkey(folder, rdma_devices),
        vdpa=host.vdpa.get(bdf, ()),
        ddp_profile=host.devlink.ddp.get(bdf) or (pf.device.ddp_profile if pf else None),
        representor=pf.ports.get(("vf", index)) if pf and index is not None else None,
    )


def _whole(host: Host, owner: int, found: Iterable[tuple[str, str]]) -> tuple[Netdev, ...]:
    read = (netdev.read_whole(host.class_net, owner, name, path) for name, path in found)
    return tuple(n for n in read if n is not None)


def _kind(folder: int, pci_class: int) -> Kind | None:
    """By class; an RDMA adapter that calls itself something else has an ``infiniband`` folder."""
    return kind_of_class(pci_class) or kind_of_class(
        pci_class, has_rdma=sysfs.exists(folder, "infiniband")
    )


def _ddp(host: Host, bdf: str, vendor: str) -> str | None:
    profile = host.devlink.ddp.get(bdf)
    if profile is None and host.ddptool is not None and vendor == _INTEL:
        return ddptool.profile(host.ddptool, bdf)
    return profile


def _unreadable(host: Host, bdf: str, attribute: str) -> Unreadable | None:
    """A function whose folder is gone by now was leaving, which is no fault."""
    return Unreadable(bdf, attribute) if sysfs.exists(host.bus, host.folders[bdf]) else None

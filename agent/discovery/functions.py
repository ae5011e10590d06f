"""From one function's folder to its Device: facts of all readers put together, PFs before VFs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import attrs

from agent.attrs_classes import frozen
from agent.host import auxiliary, ddptool, netdev, pci, rdma, switchdev, sysfs, vfio
from agent.host.auxiliary import AuxiliaryBus
from agent.host.devlink import DevlinkFacts
from agent.host.netdev import NetClass
from agent.host.rdma import RdmaHost
from agent.host.switchdev import Eswitch, Port
from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, NET_DEVICE, Kind, kind_of_class
from agent.model.device import (
    Device,
    InfinibandPort,
    Netdev,
    RdmaDevice,
    Role,
    VdpaDevice,
    is_vfio_driver,
)
from agent.model.pci_class import is_needed

_INTEL = "8086"
_INFINIBAND_CLASS = 0x0207  # PCI_CLASS_NETWORK with the subclass InfiniBand (PCI code and id list)
_VF = Role.VF  # a member of an enumeration takes half as long to look up as a record to make


@frozen
class ScanContext:
    """What one scan has open, and the facts that were read once for all functions."""

    sys: int
    bus: int
    """Open folder ``bus/pci/devices``."""
    net: NetClass
    folders: Mapping[str, str]
    """PCI address -> name of its folder on the bus."""
    rdma: RdmaHost = RdmaHost()
    vdpa: Mapping[str, tuple[VdpaDevice, ...]] = attrs.field(factory=dict)
    auxiliary: AuxiliaryBus = AuxiliaryBus()
    devlink: DevlinkFacts = DevlinkFacts()
    vfio_groups: frozenset[int] = frozenset()
    """Groups of which it is known that there is an IOMMU."""
    altnames: Callable[[str], tuple[str, ...]] | None = None
    """Whether the kernel is to be asked for alternative names of PFs."""
    ddptool: str | None = None
    """Path of the program to ask for DDP profiles, where it is wanted and there."""
    classes: tuple[str, ...] = ()
    """PCI classes beside the agent's own that pools ask for, as hex digits."""


@frozen
class Pf:
    """A function that is no VF, with what its VFs and SFs need to know of it."""

    address: str
    device: Device | None = None
    """None where VFs name it but it is not among this host's devices."""
    index_of: Mapping[str, int] = attrs.field(factory=dict)
    """VF index by address."""
    eswitch: Eswitch = Eswitch()
    aux_names: tuple[str, ...] = ()
    ports: Mapping[Port, str] = attrs.field(factory=dict)
    """Representors by port; filled when those of all PFs are known."""


@frozen
class DeferredVf:
    """A VF whose PF did not name it: it is to be read after the PFs."""

    pf_address: str


@frozen
class Skipped:
    """A function of a class that is not the agent's business."""

    address: str
    pci_class: int
    driver: str | None = None
    iommu_group: int | None = None


@frozen
class Unreadable:
    """A function without an attribute that every function has."""

    bdf: str
    attribute: str


def read_pf(host: ScanContext, bdf: str) -> Pf | DeferredVf | Skipped | Unreadable | None:
    """Read a function that is not known to be a VF; None where it is gone.

    Raises OSError where its folder is there but cannot be opened.
    """
    folder = sysfs.open_function(host.folders[bdf], host.bus)
    if folder is None:
        return None
    try:
        pci_class = pci.class_of(folder)
        kind = _kind(host, folder, pci_class)
        if kind is None:
            return _skipped(folder, bdf, pci_class)
        entries = frozenset(sysfs.listing(folder))
        pf_address = pci.physfn(folder) if "physfn" in entries else None
        if pf_address is not None:
            return DeferredVf(pf_address)
        return _pf(host, folder, entries, bdf, kind)
    except pci.MissingAttributeError as error:
        return _unreadable(host, bdf, error.attribute)
    finally:
        os.close(folder)


def read_vf(host: ScanContext, bdf: str, pf: Pf) -> Device | Skipped | Unreadable | None:
    """Read a VF; None where it is gone. Raises OSError as :func:`read_pf` does.

    There are thousands, so this is one long function: its folder is not listed, since probes cost
    less, and what can be read or parsed in one call is.
    """
    folder = sysfs.open_function(host.folders[bdf], host.bus)
    if folder is None:
        return None
    try:
        ids = pci.identity(folder)
        kind = _kind(host, folder, ids.pci_class)
        if kind is None:
            return _skipped(folder, bdf, ids.pci_class)
        driver = pci.driver(folder)
        group = vfio.iommu_group(folder)
        rdma_devices: tuple[RdmaDevice, ...] = ()
        netdevs: tuple[Netdev, ...] = ()
        uio: tuple[str, ...] = ()
        pkey = None
        noiommu = False
        vfio_device = None
        if is_vfio_driver(driver):  # then there is no netdev and no RDMA device
            noiommu = group not in host.vfio_groups and vfio.is_noiommu(folder)
            vfio_device = vfio.device_name(folder)
        else:
            netdevs = _brief(host, folder, bdf, driver)
            rdma_devices = rdma.devices_of(folder, bdf, host.rdma)
            pkey = rdma.pkey(folder, rdma_devices)
            uio = pci.uio(folder, driver)
            vfio_device = vfio.device_name(folder) if driver and not netdevs else None
            if vfio_device is not None:
                noiommu = group not in host.vfio_groups and vfio.is_noiommu(folder)
        index = pf.index_of.get(bdf)
        # In the record's own order: so many keywords would cost more than reading two files.
        return Device(
            bdf,
            kind,
            _VF,
            bdf,
            ids.vendor,
            ids.device,
            ids.pci_class,
            driver,
            ids.numa_node,
            pf.address,
            pf.device.pf_name if pf.device else None,
            index,
            0,  # total_vfs
            0,  # num_vfs
            netdevs,
            group,
            noiommu,
            uio,
            pci.acpi_index(folder),
            rdma_devices,
            host.devlink.enable_rdma.get(bdf),
            pkey,
            host.vdpa.get(bdf, ()),
            _vf_ddp(host, bdf, pf),
            None,  # aux_type
            pf.ports.get(("vf", index)) if pf.ports and index is not None else None,
            _infiniband(folder, ids.pci_class, rdma_devices, netdevs) if pf.device is None else (),
            vfio_device,
        )
    except pci.MissingAttributeError as error:
        return _unreadable(host, bdf, error.attribute)
    finally:
        os.close(folder)


def read_auxiliary(host: ScanContext, name: str, parent: Device, pf: Pf) -> Device | None:
    """Read an auxiliary device below a network function; None where it is gone.

    Vendor, device, class, NUMA node and PF are those of the function.
    """
    with sysfs.folder(f"{auxiliary.BUS}/{name}", host.sys) as folder:
        if folder is None:
            return None
        aux_type = auxiliary.type_of(name)
        is_sf = aux_type == auxiliary.SUB_FUNCTION
        index = sysfs.read_int(folder, "sfnum") if is_sf else None
        rdma_devices = rdma.devices_of(folder, name, host.rdma)
        return Device(
            id=name,
            kind=AUX_NET_DEVICE,
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
            netdevs=_whole(host, folder, netdev.listed(folder, ("net",))),
            rdma=rdma_devices,
            rdma_enabled=host.devlink.enable_rdma.get(name),
            pkey=rdma.pkey(folder, rdma_devices),
            vdpa=host.vdpa.get(name, ()),
            ddp_profile=parent.ddp_profile,
            aux_type=aux_type,
            representor=pf.ports.get(("sf", index)) if index is not None else None,
        )


def derived(host: ScanContext, vf: Device, pf: Pf) -> Device:
    """A VF that did not change itself, with what it has from its PF as that is now."""
    index = pf.index_of.get(vf.id)
    pf_name = pf.device.pf_name if pf.device else None
    representor = pf.ports.get(("vf", index)) if index is not None else None
    ddp = _vf_ddp(host, vf.id, pf)
    inherited = (index, pf_name, representor, ddp)
    if inherited == (vf.index, vf.pf_name, vf.representor, vf.ddp_profile):
        return vf
    return attrs.evolve(vf, index=index, pf_name=pf_name, representor=representor, ddp_profile=ddp)


def _pf(host: ScanContext, folder: int, entries: frozenset[str], bdf: str, kind: Kind) -> Pf:
    ids = pci.identity(folder)
    driver = pci.driver(folder)
    sriov = pci.sriov(folder, entries, host.folders)
    eswitch = switchdev.eswitch_of(_whole(host, folder, netdev.listed(folder, entries)))
    if host.altnames:
        own = tuple(attrs.evolve(n, altnames=host.altnames(n.name)) for n in eswitch.own)
        eswitch = attrs.evolve(eswitch, own=own)
    rdma_devices = rdma.devices_of(folder, bdf, host.rdma)
    is_network = kind is NET_DEVICE
    vfio_device = vfio.device_name(folder) if "vfio-dev" in entries else None
    is_vfio = vfio_device is not None or is_vfio_driver(driver)
    device = Device(
        id=bdf,
        kind=kind,
        role=Role.PF,
        pci_address=bdf,
        vendor=ids.vendor,
        device=ids.device,
        pci_class=ids.pci_class,
        driver=driver,
        numa_node=ids.numa_node,
        pf_address=bdf,
        pf_name=eswitch.uplink,
        total_vfs=sriov.total_vfs,
        num_vfs=sriov.num_vfs,
        netdevs=eswitch.own,
        iommu_group=vfio.iommu_group(folder),
        noiommu=is_vfio and vfio.is_noiommu(folder),
        uio=pci.uio(folder, driver),
        acpi_index=pci.acpi_index(folder) if "acpi_index" in entries else None,
        rdma=rdma_devices,
        rdma_enabled=host.devlink.enable_rdma.get(bdf),
        pkey=rdma.pkey(folder, rdma_devices),
        vdpa=host.vdpa.get(bdf, ()),
        ddp_profile=_ddp(host, bdf, ids.vendor) if is_network else None,
        infiniband_ports=_infiniband(folder, ids.pci_class, rdma_devices, eswitch.own),
        vfio_device=vfio_device,
    )
    aux_names = tuple(host.auxiliary.below(bdf, entries)) if is_network else ()
    return Pf(bdf, device, sriov.index_of, eswitch, aux_names)


def _brief(host: ScanContext, folder: int, bdf: str, driver: str | None) -> tuple[Netdev, ...]:
    """A VF's netdevs: as the class folder links them, or else as the VF's own folder lists them."""
    linked = host.net.below.get(bdf)
    if linked is None and not netdev.has_any(folder, driver):
        return ()
    found = []
    for name, path in linked or netdev.listed(folder, sysfs.listing(folder)):
        read = netdev.read_brief(folder, path, name) if linked else None
        if read is None and host.net.folder is not None:
            read = netdev.read_brief(host.net.folder, name, name)
        if read is None:
            read = netdev.read_brief(folder, path, name)
        if read is not None:
            found.append(read)
    return tuple(found)


def _infiniband(
    folder: int, pci_class: int, devices: tuple[RdmaDevice, ...], netdevs: tuple[Netdev, ...]
) -> tuple[InfinibandPort, ...]:
    if not devices:
        return ()
    is_infiniband = any(n.link_type == "infiniband" for n in netdevs)
    if not netdevs:  # without IPoIB the class tells
        is_infiniband = pci_class >> 8 == _INFINIBAND_CLASS
    return tuple(rdma.infiniband_ports(folder, devices, is_infiniband=is_infiniband))


def _whole(host: ScanContext, owner: int, found: Iterable[tuple[str, str]]) -> tuple[Netdev, ...]:
    read = (netdev.read_whole(host.net, owner, name, path) for name, path in found)
    return tuple(n for n in read if n is not None)


def _kind(host: ScanContext, folder: int, pci_class: int) -> Kind | None:
    """By class; an RDMA adapter that calls itself something else has an ``infiniband`` folder.

    Functions of a class that a pool asks for are accelerators.
    """
    kind = kind_of_class(pci_class) or kind_of_class(
        pci_class, has_rdma=sysfs.exists(folder, "infiniband")
    )
    if kind is None and host.classes and is_needed(pci_class, host.classes):
        return ACCELERATOR
    return kind


def _skipped(folder: int, bdf: str, pci_class: int) -> Skipped:
    """With its driver where it lies in an IOMMU group: vfio asks for those of all functions."""
    group = vfio.iommu_group(folder)
    return Skipped(bdf, pci_class, None if group is None else pci.driver(folder), group)


def _vf_ddp(host: ScanContext, bdf: str, pf: Pf) -> str | None:
    return host.devlink.ddp.get(bdf) or (pf.device.ddp_profile if pf.device else None)


def _ddp(host: ScanContext, bdf: str, vendor: str) -> str | None:
    profile = host.devlink.ddp.get(bdf)
    if profile is None and host.ddptool is not None and vendor == _INTEL:
        return ddptool.profile(host.ddptool, bdf)
    return profile


def _unreadable(host: ScanContext, bdf: str, attribute: str) -> Unreadable | None:
    """A function whose folder is gone by now was leaving, which is no fault."""
    return Unreadable(bdf, attribute) if sysfs.exists(host.bus, host.folders[bdf]) else None

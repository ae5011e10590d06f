"""Checks whether the facts that decide on device nodes are still those of the last scan.

For Allocate while sysfs is slow. Reads only links, folders and the ``ibdev`` of RDMA nodes: the
kernel answers these without the driver, which may be what hangs.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.host import auxiliary, pci, rdma, sysfs, vdpa, vfio
from agent.model.device import Device
from agent.roots import Roots


def changed_facts(roots: Roots, devices: tuple[Device, ...]) -> dict[str, str]:
    """Device id -> the first fact that changed, for devices with one; for a worker thread."""
    with sysfs.folder(roots.sys) as sys:
        if sys is None:
            return {d.id: "sysfs cannot be read" for d in devices}
        changes = ((d.id, next(_changes(sys, d), "")) for d in devices)
        return {device_id: change for device_id, change in changes if change}


def _changes(sys: int, device: Device) -> Iterator[str]:
    with sysfs.folder(_path(sys, device), sys) as folder:
        if folder is None:
            yield "it is no longer on the host"
            return
        driver = pci.driver(folder)
        if driver != device.driver:
            yield f"its driver is {driver or 'none'}, was {device.driver or 'none'}"
        group = vfio.iommu_group(folder)
        if group != device.iommu_group:
            yield f"its IOMMU group is {_text(group)}, was {_text(device.iommu_group)}"
        if device.is_vfio and vfio.device_name(folder) != device.vfio_device:
            yield "its VFIO device is another"
        if device.uio and pci.uio(folder, driver) != device.uio:
            yield "its UIO device is another"
        if device.rdma and not rdma.has_nodes_of(sys, folder, device.rdma):
            yield "its RDMA devices are others"
        if device.vdpa and vdpa.read_bus(sys).get(device.id, ()) != device.vdpa:
            yield "its vDPA devices are others"


def _path(sys: int, device: Device) -> str:
    if device.id != device.pci_address:
        return f"{auxiliary.BUS}/{device.id}"
    with sysfs.folder(pci.BUS, sys) as bus:
        name = device.id if bus is None else pci.folder_name(bus, device.id)
    return f"{pci.BUS}/{name}"


def _text(group: int | None) -> str:
    return "none" if group is None else str(group)

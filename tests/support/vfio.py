"""VFIO devices and shared IOMMU groups on a laid-out host."""

from __future__ import annotations

from tests.support.host_builder import HostBuilder


def vfio_device(host: HostBuilder, bdf: str, number: int) -> str:
    """Give a function a VFIO device with its node, as drivers do since Linux 6.6; its name."""
    name = f"vfio{number}"
    folder = host.folder(bdf) / "vfio-dev" / name
    host.write(folder / "dev", f"511:{number}")
    host.link(host.root / "sys/class/vfio-dev" / name, folder)
    host.node(f"vfio/devices/{name}")
    host.node("iommu")
    return name


def share_group(host: HostBuilder, bdf: str, mate: str) -> int:
    """Put a function into another's IOMMU group; the group's number."""
    folder = (host.folder(mate) / "iommu_group").resolve()
    host.link(folder / "devices" / bdf, host.folder(bdf))
    (host.folder(bdf) / "iommu_group").unlink(missing_ok=True)
    host.link(host.folder(bdf) / "iommu_group", folder)
    return int(folder.name)

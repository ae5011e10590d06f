"""IOMMU groups of functions, as vfio names them below /dev/vfio."""

from __future__ import annotations

from agent.host import sysfs

_CLASS = "class/vfio"
_NAME = "iommu_group/name"
_NOIOMMU = "vfio-noiommu"  # drivers/vfio/group.c names the group so when it invents one


def iommu_group(function: int) -> int | None:
    """The number of a function's IOMMU group; None where it has none."""
    name = sysfs.link_name(function, "iommu_group")
    return int(name) if name is not None and name.isdecimal() else None


def is_vfio(driver: str | None) -> bool:
    """Whether a driver hands functions to userspace by vfio: all such have ``vfio`` in their names.

    A function that is bound to one has no netdev and no RDMA device.
    """
    return driver is not None and "vfio" in driver


def groups(sys: int) -> frozenset[int]:
    """The groups that vfio shows and did not make up: one listing, which spares asking each.

    drivers/vfio/group.c has a class device for each group with a function bound to vfio, called
    ``noiommu-<group>`` if it made that group up. Kernels without vfio's groups lack the class, and
    so may laid-out trees: nothing follows from what is not here.
    """
    with sysfs.folder(_CLASS, sys) as shown:
        names = sysfs.listing(shown) if shown is not None else []
    return frozenset(map(int, filter(str.isdecimal, names)))


def is_noiommu(function: int) -> bool:
    """Whether the vfio driver of a function made its group up, because there is no IOMMU."""
    return sysfs.exists(function, _NAME) and sysfs.read_text(function, _NAME) == _NOIOMMU

"""IOMMU groups of functions, and the devices that vfio makes of them (``/dev/vfio``)."""

from __future__ import annotations

import re

from agent.host import sysfs

_CLASS = "class/vfio"
_NAME = "iommu_group/name"
_DEVICES = "vfio-dev"
_DEVICE = re.compile(r"vfio\d+")
_NOIOMMU = "vfio-noiommu"  # drivers/vfio/group.c names the group so when it invents one


def iommu_group(function: int) -> int | None:
    """The number of a function's IOMMU group; None where it has none."""
    name = sysfs.link_name(function, "iommu_group")
    return int(name) if name is not None and name.isdecimal() else None


def device_name(function: int) -> str | None:
    """The VFIO device that a driver made of a function (``vfio-dev/vfio7``); None = none.

    Since Linux 6.1 each driver that hands a function to userspace makes one (vfio_main.c).
    """
    if not sysfs.exists(function, _DEVICES):
        return None
    return next((n for n in sysfs.names(function, _DEVICES) if _DEVICE.fullmatch(n)), None)


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

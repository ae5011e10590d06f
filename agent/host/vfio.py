"""IOMMU groups of functions, and the devices that vfio creates for them (``/dev/vfio``)."""

from __future__ import annotations

import re

from agent.host import sysfs

_CLASS = "class/vfio"
_NAME = "iommu_group/name"
_DEVICES = "vfio-dev"
_DEVICE = re.compile(r"vfio\d+")
_NOIOMMU = "vfio-noiommu"  # name of a group that drivers/vfio/group.c creates without an IOMMU


def iommu_group(function: int) -> int | None:
    """The number of a function's IOMMU group; None without a group."""
    name = sysfs.link_name(function, "iommu_group")
    return int(name) if name is not None and name.isdecimal() else None


def device_name(function: int) -> str | None:
    """The VFIO device of a function (``vfio-dev/vfio7``); None without one.

    Since Linux 6.1 each driver that gives userspace access to a function creates one (vfio_main.c).
    """
    if not sysfs.exists(function, _DEVICES):
        return None
    return next((n for n in sysfs.names(function, _DEVICES) if _DEVICE.fullmatch(n)), None)


def groups(sys: int) -> frozenset[int]:
    """The groups of vfio that belong to an IOMMU; one listing instead of a read for each group.

    drivers/vfio/group.c has a class device for each group with a function bound to vfio, called
    ``noiommu-<group>`` if there is no IOMMU. Kernels without vfio groups lack the class, and so may
    laid-out trees: a group that is missing here may exist nevertheless.
    """
    with sysfs.folder(_CLASS, sys) as shown:
        names = sysfs.listing(shown) if shown is not None else []
    return frozenset(map(int, filter(str.isdecimal, names)))


def is_noiommu(function: int) -> bool:
    """Whether vfio created the function's group itself, because there is no IOMMU."""
    return sysfs.exists(function, _NAME) and sysfs.read_text(function, _NAME) == _NOIOMMU

"""IOMMU groups of functions, as vfio names them below /dev/vfio."""

from __future__ import annotations

from agent.host.sysfs import link_name, read_text

_NOIOMMU_NAME = "vfio-noiommu"  # drivers/vfio/group.c names the group so when it invents one


def iommu_group(function: int) -> int | None:
    """The number of a function's IOMMU group; None where it has none."""
    name = link_name(function, "iommu_group")
    return int(name) if name is not None and name.isdecimal() else None


def is_noiommu(function: int, driver: str | None) -> bool:
    """Whether a vfio driver made the function's group up, because the host has no IOMMU.

    Only vfio drivers do that (all have ``vfio`` in their names), so others are not asked.
    """
    return (
        driver is not None
        and "vfio" in driver
        and (read_text(function, "iommu_group/name") == _NOIOMMU_NAME)
    )

"""A verdict on a device's health, with its cause."""

from __future__ import annotations

from enum import StrEnum

import attrs

from agent.attrs_classes import frozen


class Cause(StrEnum):
    """Why a device is Unhealthy: stable words for logs and metrics."""

    NONE = ""
    GONE = "device gone"
    DRIVER = "driver"
    NODE = "device node missing"
    GROUP_NOT_VIABLE = "IOMMU group not viable"
    GROUP_IN_USE = "IOMMU group in use"
    PF_DOWN = "PF down"
    NO_CARRIER = "no carrier"
    LINK_DISABLED = "link disabled"


@frozen(cache_hash=True)
class Health:
    """One device's health; ``detail`` is one sentence."""

    cause: str = Cause.NONE
    """A member of :class:`Cause`, or a word that a check declares in its ``causes``."""
    detail: str = ""
    healthy: bool = attrs.field(init=False, eq=False, repr=False)
    """Whether the device is Healthy in kubelet's list."""

    @healthy.default
    def _is_healthy(self) -> bool:
        return not self.cause


HEALTHY = Health()

"""The words of health: a verdict with its cause."""

from __future__ import annotations

from enum import StrEnum

import attrs


class Cause(StrEnum):
    """Why a device is Unhealthy; stable words for logs and metrics."""

    NONE = ""
    GONE = "device gone"
    DRIVER = "driver"
    NODE = "device node missing"
    PF_DOWN = "PF down"
    NO_CARRIER = "no carrier"
    LINK_DISABLED = "link disabled"


@attrs.frozen
class Health:
    """One device's health; ``detail`` is a sentence for people."""

    cause: Cause = Cause.NONE
    detail: str = ""

    @property
    def healthy(self) -> bool:
        """Whether kubelet is told ``Healthy``."""
        return self.cause is Cause.NONE


HEALTHY = Health()

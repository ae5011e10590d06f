"""What a device type is made of; each file beside this one declares one."""

from __future__ import annotations

from agent.attrs_classes import frozen
from agent.model.device import Kind


@frozen(eq=False)
class KindFacts:
    """Everything that differs between device types outside their selectors."""

    kind: Kind
    base_classes: frozenset[int]
    """PCI base classes (0xCC of 0xCCSSPP) whose functions are of this kind; empty = not PCI."""
    aux_types: frozenset[str]
    """Auxiliary device types known to work; empty = not on the auxiliary bus."""
    device_info: bool
    """Whether a device-info file is written for the CNI plugin."""
    cdi_class: str
    """Class part of its CDI kind, ``<prefix>/<class>`` (contract of the Go plugin)."""
    noun: str
    """What people call one of them, for example in ``every network function``."""

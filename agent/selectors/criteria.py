"""What configured selectors become once read, and what a device's facts make of them."""

from __future__ import annotations

from typing import Any

from agent.attrs_classes import frozen


@frozen
class Criterion:
    """One selector of a selector object, with its normalised wanted value."""

    key: str
    """The selector's key in :data:`agent.selectors.SELECTORS`, in its canonical spelling."""
    wanted: Any
    """What the selector's own parse and combine made of the configured values; hashable."""


@frozen
class SelectorObject:
    """One selector object: every criterion must hold (AND); none = everything of the kind."""

    criteria: tuple[Criterion, ...] = ()
    """Filters in the order of the selector table; empty lists and false booleans are left out."""
    is_rdma: bool = False
    """RDMA nodes are handed out for devices that this object chose."""
    need_vhost_net: bool = False
    """/dev/vhost-net and /dev/net/tun are handed out (netDevice and auxNetDevice only)."""
    vdpa_type: str | None = None
    """``vhost`` or ``virtio``."""


@frozen
class Verdict:
    """How one selector judges one device, in words for people."""

    key: str
    """The selector's key in its canonical spelling."""
    wanted: str
    """The configured values as text."""
    actual: str
    """What the device is, for example ``driver i40e`` or ``no driver bound``."""
    passed: bool

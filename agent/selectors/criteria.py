"""Configured selectors after reading, and the verdict of one selector on one device."""

from __future__ import annotations

from typing import Any

from agent.attrs_classes import frozen


@frozen
class Criterion:
    """One selector of a selector object with its wanted value in normal form."""

    key: str
    """The selector's key in :data:`agent.selectors.SELECTORS`."""
    wanted: Any
    """The configured values after the selector's ``parse`` and ``combine``; hashable."""


@frozen
class SelectorObject:
    """One selector object: every criterion must hold (AND); none = all devices of the type."""

    criteria: tuple[Criterion, ...] = ()
    """Filters in the order of the selector table; empty lists and false booleans are omitted."""
    is_rdma: bool = False
    """Whether pods get the RDMA device nodes of devices that this object chose."""
    need_vhost_net: bool = False
    """Whether pods get /dev/vhost-net and /dev/net/tun."""
    vdpa_type: str | None = None
    """``vhost``: pods get the device node of the vDPA device; ``virtio``: they get none."""


@frozen
class Verdict:
    """The verdict of one selector on one device, as text."""

    key: str
    """The selector's key."""
    wanted: str
    """The configured values as text."""
    actual: str
    """The device's fact, for example ``driver i40e`` or ``no driver bound``."""
    passed: bool

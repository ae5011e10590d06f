"""Bus events about the host, its links and the allocation of devices."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.attrs_classes import frozen
from agent.model.link import Links
from agent.model.snapshot import Snapshot


@frozen
class HostChanged:
    """Something on the host may have changed, so it should be scanned."""

    touched: frozenset[str] | None = None
    """The functions and auxiliary devices concerned, besides what every scan lists anyway; None =
    anything may have changed."""


@frozen
class SnapshotTaken:
    """A scan is done."""

    snapshot: Snapshot
    settled: bool
    """Whether the host has been quiet for a while: only then are new devices listed."""
    seen_at: float | None = attrs.field(default=None, eq=False)
    """Loop time (s) of the first event that led to the scan; None = it is the first scan."""


@frozen
class LinksChanged:
    """An interface changed, as netlink reports it."""

    links: Links
    seen_at: float | None = attrs.field(default=None, eq=False)
    """Loop time (s) at which the message was read."""


@frozen
class ScanFailing:
    """Reading the host failed, or succeeded again after a failure."""

    error: str
    """Why it failed; empty = it succeeded."""


@frozen
class DevicesReturned:
    """Devices were refused, or kubelet offers them again soon: the pod has failed."""

    resource: str
    device_ids: tuple[str, ...]


@frozen
class DevicesResting:
    """Other devices are preferred to these for a while, since pods with them may have failed."""

    until: Mapping[str, float]
    """Device id -> loop time (s) of the end."""


@frozen
class DevicesAllocated:
    """Devices were allocated to a container of a pod that is being started."""

    resource: str
    device_ids: tuple[str, ...]

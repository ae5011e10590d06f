"""Events on the bus between discovery, health and what leaves the process."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.attrs_classes import frozen
from agent.model.link import Links
from agent.model.snapshot import Snapshot


@frozen
class HostChanged:
    """Something on the host may have changed: worth a scan."""

    source: str
    """``uevent``, ``link``, ``route``, ``tree``, ``timer`` ..."""
    touched: frozenset[str] | None = None
    """The functions and auxiliary devices that it is about, apart from what buses and classes list
    anyway; None = anything may have changed."""


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
    """The host cannot be read any more, or can again."""

    error: str
    """Why; empty = it can be read again."""


@frozen
class ScanStalled:
    """A scan takes unreasonably long; ``seconds`` so far. Told again when it is done, as 0."""

    seconds: float


@frozen
class DevicesReturned:
    """Devices could not be given, or kubelet offers them again soon after: the pod has failed."""

    resource: str
    device_ids: tuple[str, ...]


@frozen
class DevicesResting:
    """Other devices are to be preferred to these, as pods that had them may have failed."""

    until: Mapping[str, float]
    """Device id -> loop time (s) of the end."""


@frozen
class DevicesAllocated:
    """Kubelet was given devices for a container of a pod that is being started."""

    resource: str
    device_ids: tuple[str, ...]

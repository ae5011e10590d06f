"""Bus events of the plugin fleet, and the state of each of its servers.

Published by the fleet; used by readiness, metrics and ``status``.
"""

from __future__ import annotations

from agent.attrs_classes import frozen


@frozen
class ServerEnded:
    """The server of a resource ended, with its socket and streams."""

    resource: str


@frozen
class ResourceLocksChanged:
    """This process acquired or lost the lock of a resource."""


@frozen
class PoolServerState:
    """The state of one resource's server, and of its registration."""

    resource: str
    registered_by: str | None
    """``watcher`` or ``legacy``; None while not registered."""
    generation: int
    """Number of the resource's newest socket; 0 = there was none yet."""
    stream_live: bool
    """Whether a stream is open: without one, kubelet counts no device."""
    socket: str | None
    """Path of the current socket."""
    registrations: int
    lists_pushed: int
    last_error: str | None
    """Why the latest attempt failed; None once registered."""
    since_s: float
    """Loop time (s) of the last change of this state."""
    note: str = ""
    """A note for the operator although the resource is served; empty = none."""

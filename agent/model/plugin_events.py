"""Bus events of the plugin fleet, and the state of each of its servers.

Published by the fleet; used by readiness, metrics and ``status``.
"""

from __future__ import annotations

import attrs

from agent.attrs_classes import frozen


@frozen
class Registered:
    """Kubelet accepted a resource."""

    resource: str
    way: str
    """``watcher`` or ``legacy``."""
    generation: int
    socket: str
    """File name of the socket that kubelet talks to."""


@frozen
class RegistrationFailed:
    """An attempt to register failed; another one follows."""

    resource: str
    error: str
    failures: int
    """How many attempts failed in a row, this one included."""


@frozen
class StreamOpened:
    """Kubelet opened a stream of a resource's list; it may replace an older one."""

    resource: str
    generation: int


@frozen
class StreamLost:
    """The stream of a resource's list ended, although the agent did not end it."""

    resource: str
    generation: int


@frozen
class ListPushed:
    """A full list was sent to kubelet."""

    resource: str
    healthy: int
    unhealthy: int
    sequence: int
    """Number of the list; a list that a newer one replaces is not sent."""
    seen_at: float | None = attrs.field(default=None, eq=False)
    """Loop time (s) of the event on the host that led to the list; None = no event did."""


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

"""What the plugin fleet tells the rest of the agent: bus events, and how each server stands.

Made by the fleet; read by readiness, metrics, the journal and ``status``.
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
    """An attempt to be registered went wrong; another one follows."""

    resource: str
    error: str
    failures: int
    """How many attempts failed in a row, this one included."""


@frozen
class StreamOpened:
    """Kubelet follows the list of a resource; a newer stream takes the place of an older one."""

    resource: str
    generation: int


@frozen
class StreamLost:
    """Nobody follows the list of a resource any more, though it was not asked to end."""

    resource: str
    generation: int


@frozen
class ListPushed:
    """A full list went out to kubelet."""

    resource: str
    healthy: int
    unhealthy: int
    sequence: int
    """Number of the list; lists that were overtaken by a newer one are never sent."""
    seen_at: float | None = attrs.field(default=None, eq=False)
    """Loop time (s) of the event on the host that led to the list; None = no event did."""


@frozen
class ServerEnded:
    """The server of a resource ended: no socket or stream of it is left."""

    resource: str


@frozen
class ResourceLocksChanged:
    """This process may serve a resource that it could not, or the other way round."""


@frozen
class PoolServerState:
    """How one resource stands with kubelet."""

    resource: str
    registered_by: str | None
    """``watcher`` or ``legacy``; None while not registered."""
    generation: int
    """Counts the sockets made for the resource; 0 before the first."""
    stream_live: bool
    """Whether kubelet follows the list now: without it, kubelet counts no device."""
    socket: str | None
    """Path of the socket being served."""
    registrations: int
    lists_pushed: int
    last_error: str | None
    """Why the latest attempt failed; None once registered."""
    since_s: float
    """Loop time (s) at which the server came into this state."""
    note: str = ""
    """What people should know though the resource is served; empty = nothing."""

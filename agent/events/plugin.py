"""Events of resources: registration, device lists, streams and sockets."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class Registered(LogEvent, name="plugin.registered", level=INFO):
    """Kubelet accepted the resource."""

    resource: str
    method: str
    generation: int
    socket: str


class RegistrationFailed(RepeatedEvent, name="plugin.registration_failed", level=WARNING):
    """Kubelet could not be reached, or it refused the resource. The agent retries until it
    succeeds. The event is logged at the first, 10th, 100th ... failure.
    """

    resource: str
    error: str


class StreamOpened(LogEvent, name="plugin.stream_opened", level=DEBUG):
    """Kubelet opened the ListAndWatch stream of the resource."""

    resource: str
    generation: int


class StreamLost(RepeatedEvent, name="plugin.stream_lost", level=WARNING):
    """The ListAndWatch stream ended: kubelet restarted or had an error. The agent registers the
    resource again. If this repeats, the event is logged at the first, 10th, 100th ... time.
    """

    resource: str
    generation: int


class RegistrationUnsteady(RepeatedEvent, name="plugin.unsteady", level=WARNING):
    """Several registrations in a row ended early: kubelet ends the stream, or something removes
    the socket. The agent registers again at growing intervals of at most 10 s. See kubelet's
    log for the cause.
    """

    resource: str
    within_s: float


class PluginFolderUnwatched(RepeatedEvent, name="plugin.unwatched", level=WARNING):
    """Kubelet runs but does not dial the sockets in its plugin watcher's folder. The agent
    registers resources through kubelet.sock instead. Mount the folder that this kubelet
    watches, or run with --registration legacy.
    """

    resource: str
    folder: str
    after_s: float


class RegistrationInvalidated(RepeatedEvent, name="plugin.invalidated", level=INFO):
    """A registration became invalid: its socket was removed, or kubelet.sock was replaced. The
    agent registers the resource again.
    """

    resource: str
    why: str


class ListPushed(LogEvent, name="plugin.list_pushed", level=DEBUG, unlogged="seen_at"):
    """The agent sent a full device list to kubelet."""

    resource: str
    healthy: int
    unhealthy: int
    sequence: int
    """Number of the list; a list that a newer one overtook is not sent."""
    seen_at: float | None = None
    """Loop time (s) of the event on the host that led to the list; None = no event did."""


class ListTooLong(RepeatedEvent, name="plugin.list_too_long", level=ERROR):
    """A device list exceeds kubelet's limit (4 MiB, about 135,000 devices). Kubelet ends the
    stream and has no devices of this resource until you split the pool.
    """

    resource: str
    bytes: int
    limit_bytes: int
    fix: str


class LeftoversRemoved(LogEvent, name="plugin.leftovers_removed", level=INFO):
    """The agent removed dead sockets of earlier processes from kubelet's folders."""

    sockets: tuple[str, ...]


class PluginFolderUnusable(RepeatedEvent, name="plugin.folder_unusable", level=WARNING):
    """The agent cannot read or write one of kubelet's folders: it is read-only, it cannot be
    searched, its file system fails or hangs, or its links form a loop. Existing sockets stay in
    place, and the agent retries registration until it succeeds.
    """

    folder: str
    error: str


class PluginConflict(RepeatedEvent, name="plugin.conflict", level=WARNING):
    """Another device plugin still serves this resource. Remove its DaemonSet from the node;
    otherwise both plugins register in turn.
    """

    resource: str
    socket: str


class PluginRemoved(LogEvent, name="plugin.removed", level=INFO):
    """The agent stopped serving a resource."""

    resource: str

"""One attempt to serve and register a resource: its state and its limits."""

from __future__ import annotations

from agent.attrs_classes import define, frozen
from agent.bus import Bus
from agent.model.answers import Backend
from agent.plugin.registration import RegistrationMethod, RegistrationMethods
from agent.plugin.server import PoolServer
from agent.plugin.service import DevicePluginService
from agent.roots import Roots
from agent.transport.unix_socket import Identity


@frozen
class Limits:
    """How long kubelet may take (s) before the attempt counts as failed."""

    stream_s: float = 5.0
    """From registration to ListAndWatch; kubelet opens it at once."""
    undialled_s: float = 60.0
    """From a socket in the watcher's folder to GetInfo. Kubelet looks each second, and during its
    back-off at least every two minutes; a new name resets the back-off."""
    unwatched_s: float = 10.0
    """The same if registration is ``auto`` and kubelet.sock is served: then kubelet does not watch
    the folder, and the resource is registered by kubelet.sock. Kubelet reads the folder when it
    starts, and each second."""
    verdict_s: float = 15.0
    """From GetInfo to NotifyRegistrationStatus; kubelet's own limits add up to less."""
    steady_s: float = 30.0
    """After a generation that lived this long the next one follows at once. After shorter ones the
    delays grow as in Retry."""


@frozen
class PluginContext:
    """What all resources of a fleet share."""

    roots: Roots
    answers: Backend
    bus: Bus
    process_token: str
    """Eight hex digits that make this process's socket names unique."""
    limits: Limits
    methods: RegistrationMethods


@define
class Generation:
    """What happened to one server since it was created."""

    number: int
    method: RegistrationMethod
    server: PoolServer
    service: DevicePluginService
    kubelet: Identity | None
    """The newest known kubelet.sock; None with the watcher method until something changes."""
    began_s: float
    kubelet_since_s: float
    """Loop time (s) of the newest start of kubelet, or of this generation's own start."""
    dialled: bool = False
    streams_before: int = 0
    """How many streams had been opened when kubelet's plugin watcher last called GetInfo."""
    registered: bool = False
    streams_due: int = 1
    """How many must be opened by now: kubelet opens one after each registration."""
    refusal: str | None = None
    invalidated: str | None = None
    """Why the registration became invalid: the socket was removed, kubelet.sock was replaced."""

"""One attempt of a resource to be served and registered: its state, and the limits it works in."""

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
    """From a socket in the watcher's folder to GetInfo. Kubelet looks each second, and in its own
    back-off at least every two minutes; a fresh name makes it begin anew."""
    unwatched_s: float = 10.0
    """The same where registration is ``auto`` and kubelet.sock is served: then nobody watches the
    folder, and the resource is registered by kubelet.sock. Kubelet looks into the folder when it
    starts, and each second."""
    verdict_s: float = 15.0
    """From GetInfo to NotifyRegistrationStatus; kubelet's own limits add up to less."""
    steady_s: float = 30.0
    """A generation that lived so long was a success: what ends it is answered at once. What ends
    earlier, again and again, is answered less and less often, in the rhythm of Retry."""


@frozen
class PluginContext:
    """What all pools of a fleet share."""

    roots: Roots
    answers: Backend
    bus: Bus
    process_token: str
    """Eight hex digits that tell this process's sockets from those of others."""
    limits: Limits
    ways: RegistrationMethods


@define
class Generation:
    """What happened to one server since it was made."""

    number: int
    way: RegistrationMethod
    server: PoolServer
    service: DevicePluginService
    kubelet: Identity | None
    """kubelet.sock as it was seen last; None for the watcher's way until something changes."""
    began_s: float
    kubelet_since_s: float
    """Loop time (s) of the newest start of kubelet, or of this generation's own start."""
    dialled: bool = False
    streams_before: int = 0
    """How many streams had been opened when kubelet's plugin watcher last asked who serves."""
    registered: bool = False
    streams_due: int = 1
    """How many must have been opened by now: a kubelet that registers the socket follows it."""
    refusal: str | None = None
    invalidated: str | None = None
    """What came from outside and ended it: a socket gone, kubelet.sock replaced."""

"""One attempt of a resource to be served and registered: its state, and the limits it works in."""

from __future__ import annotations

from agent.bus import Bus
from agent.model.answers import Answers
from agent.plugin.registration import Way, Ways
from agent.plugin.server import PoolServer
from agent.plugin.service import DevicePluginService
from agent.plugin.sockets import Identity
from agent.records import define, frozen
from agent.roots import Roots


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
class Surroundings:
    """What all pools of a fleet share."""

    roots: Roots
    answers: Answers
    bus: Bus
    process_token: str
    """Eight hex digits that tell this process's sockets from those of others."""
    limits: Limits
    ways: Ways


@define
class Generation:
    """What happened to one server since it was made."""

    number: int
    way: Way
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
    undone: str | None = None
    """What came from outside and ended it: a socket gone, kubelet.sock replaced."""

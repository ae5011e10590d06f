"""Everything the agent knows at one moment, as one value: what status, probes and metrics read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from agent.attrs_classes import frozen
from agent.config.watcher import ConfigStatus
from agent.health.pool_health import PoolHealth
from agent.health.verdict import Health
from agent.model.link import Links
from agent.model.plugin_events import PoolServerState
from agent.pools.pool import Pools


@frozen
class ScanStatus:
    """How the scans of the host go."""

    number: int = 0
    took_s: float = 0.0
    """How long the last one took."""
    stalled_s: float = 0.0
    """How long the one under way has been hanging; 0 = none hangs."""
    failing: str = ""
    """Why the host cannot be read; empty = it can."""


@frozen(slots=False)
class AgentState:
    """One moment of the agent; parts that are not there yet have their empty values.

    Not slotted so that look-up tables are made once, on first use.
    """

    version: str = ""
    pid: int = 0
    node: str = ""
    started_at: float = 0.0
    """Seconds since 1970."""
    now: float = 0.0
    """Seconds since 1970, at ``loop_s``."""
    loop_s: float = 0.0
    """The same moment in loop time, in which servers tell since when they stand as they do."""
    config: ConfigStatus = ConfigStatus("")
    waiting_for: Mapping[str, str] = attrs.field(factory=dict)
    """Resource -> the other process on this node that serves it, while this one waits for it."""
    serving: bool = False
    """Whether the first lists have been made."""
    stopping: bool = False
    """Whether it was asked to stop: streams and sockets are on their way out."""
    pools: Pools = Pools()
    pools_health: Mapping[str, PoolHealth] = attrs.field(factory=dict)
    servers: tuple[PoolServerState, ...] = ()
    resting: Mapping[str, float] = attrs.field(factory=dict)
    """Device id -> for how long (s) others are still preferred to it, since it came back soon."""
    scan: ScanStatus = ScanStatus()
    links: Links = Links()
    netlink: str = "off"
    """``open``, ``closed`` or ``off``."""
    overruns: int = 0
    """How often the kernel dropped link events since the start."""
    hanging: tuple[str, ...] = ()
    """Paths at which a call of the system hangs."""
    lines_dropped: int = 0
    """Lines of the log stream that were dropped since the start."""
    changed_at: Mapping[str, float] = attrs.field(factory=dict)
    """Device id -> since when its health has been so, seconds since 1970; absent = not known."""

    @cached_property
    def server_of(self) -> Mapping[str, PoolServerState]:
        """Servers by resource."""
        return {server.resource: server for server in self.servers}

    def health_of(self, device_id: str) -> Health | None:
        """The health that kubelet is told of a device; None where it is in no pool."""
        resource = self.pools.resource_of.get(device_id)
        pool_health = self.pools_health.get(resource or "")
        return pool_health.state.reported.get(device_id) if pool_health else None

    def wall_time(self, loop_s: float) -> float:
        """A loop time as seconds since 1970."""
        return self.now - (self.loop_s - loop_s)

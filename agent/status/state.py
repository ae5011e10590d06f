"""The agent's state at one moment, as one value that status, probes and metrics read."""

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
    """The scans of the host."""

    number: int = 0
    took_s: float = 0.0
    """How long the last one took."""
    stalled_s: float = 0.0
    """How long the current one has been hanging; 0 = none hangs."""
    failing: str = ""
    """Why the host cannot be read; empty = it can be read."""


@frozen(slots=False)
class AgentState:
    """The agent's state at one moment; parts that do not exist yet are empty.

    Without slots, for the tables that are made at their first use.
    """

    version: str = ""
    pid: int = 0
    node: str = ""
    started_at: float = 0.0
    """Seconds since 1970."""
    now: float = 0.0
    """Seconds since 1970, at ``loop_s``."""
    loop_s: float = 0.0
    """The same moment in loop time, which the states of servers use."""
    config: ConfigStatus = ConfigStatus("")
    waiting_for: Mapping[str, str] = attrs.field(factory=dict)
    """Resource -> the other process on this node that serves it; this one waits for its end."""
    serving: bool = False
    """Whether the first lists exist."""
    stopping: bool = False
    """Whether it is stopping: streams and sockets are being closed."""
    pools: Pools = Pools()
    pools_health: Mapping[str, PoolHealth] = attrs.field(factory=dict)
    servers: tuple[PoolServerState, ...] = ()
    resting: Mapping[str, float] = attrs.field(factory=dict)
    """Device id -> for how long (s) other devices are still preferred to it."""
    scan: ScanStatus = ScanStatus()
    links: Links = Links()
    netlink: str = "off"
    """``open``, ``closed`` or ``off``."""
    overruns: int = 0
    """How many times the kernel has dropped link events since the start."""
    hanging: tuple[str, ...] = ()
    """Paths at which a system call hangs."""
    lines_dropped: int = 0
    """Lines of the log stream that were dropped since the start."""
    changed_at: Mapping[str, float] = attrs.field(factory=dict)
    """Device id -> time of its last change of health, in seconds since 1970, if known."""

    @cached_property
    def server_of(self) -> Mapping[str, PoolServerState]:
        """Servers by resource."""
        return {server.resource: server for server in self.servers}

    def health_of(self, device_id: str) -> Health | None:
        """The health of a device in kubelet's list; None if it is in no pool."""
        resource = self.pools.resource_of.get(device_id)
        pool_health = self.pools_health.get(resource or "")
        return pool_health.state.reported.get(device_id) if pool_health else None

    def wall_time(self, loop_s: float) -> float:
        """A loop time as seconds since 1970."""
        return self.now - (self.loop_s - loop_s)

"""A moment of the agent for tests of what it says of itself, made by the real code."""

from __future__ import annotations

from typing import Any

from agent.config.watcher import ConfigStatus
from agent.health.pool_health import assess_pool
from agent.model.link import Links
from agent.model.plugin_events import PoolServerState
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.status.state import AgentState
from tests.support.pools import Json, assigned

NOW = 1_700_000_000.0
LOOP_S = 500.0


def moment(
    snapshot: Snapshot,
    *pools: Json,
    held: AllocatedDevices | None = None,
    **parts: Any,  # noqa: ANN401
) -> AgentState:
    """A working agent on this host; every pool with devices has a live stream unless told."""
    links = parts.setdefault("links", Links())
    made = assigned(snapshot, *pools, held=held)
    parts.setdefault("servers", tuple(server(p.resource) for p in made.pools if p.members))
    plain: dict[str, Any] = {
        "version": "1.2.3",
        "pid": 42,
        "node": "node-1",
        "started_at": NOW - 60,
        "now": NOW,
        "loop_s": LOOP_S,
        "config": ConfigStatus("/etc/pcidp/config.json", in_force=True),
        "serving": True,
        "pools": made,
        "pools_health": {
            p.resource: assess_pool(None, p, made, links, LOOP_S, {}) for p in made.pools
        },
    }
    return AgentState(**plain | parts)


def server(resource: str, **facts: Any) -> PoolServerState:  # noqa: ANN401
    """A server whose list kubelet follows, unless ``facts`` say otherwise."""
    plain: dict[str, Any] = {
        "resource": resource,
        "registered_by": "watcher",
        "generation": 1,
        "stream_live": True,
        "socket": f"/plugins_registry/{resource.replace('/', '_')}.sock",
        "registrations": 1,
        "lists_pushed": 1,
        "last_error": None,
        "since_s": LOOP_S - 10,
    }
    return PoolServerState(**plain | facts)

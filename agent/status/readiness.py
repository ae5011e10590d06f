"""Whether the node can be used: one rule for the probe, ``status`` and the log.

The agent is ready when it has a configuration and kubelet has opened the ListAndWatch stream of
every pool that has devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.attrs_classes import frozen
from agent.status.state import AgentState


@frozen
class Readiness:
    """Whether the agent is ready, with sentences for people."""

    missing: tuple[str, ...] = ()
    """Why it is not ready; empty = it is ready."""
    details: tuple[str, ...] = ()
    """Conditions that do not affect readiness."""

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def readiness(state: AgentState) -> Readiness:
    """Readiness at one moment; pure."""
    return Readiness(tuple(_missing(state)), tuple(_details(state)))


def _missing(state: AgentState) -> Iterator[str]:
    if state.stopping:
        yield "the agent is stopping"
    if not state.config.in_force:
        why = f": {state.config.rejected}" if state.config.rejected else ""
        yield f"no valid configuration{why}"
    for resource, holder in state.waiting_for.items():
        yield f"{resource}: waiting for another agent that serves it on this node: {holder}"
    if not state.serving:
        yield "the first scan of the host has not finished"
    if state.scan.stalled_s:
        yield f"a scan of the host has been hanging for {state.scan.stalled_s:.0f} s"
    if state.scan.failing:
        yield f"the host cannot be read, the facts of the last scan are used: {state.scan.failing}"
    for resource, pool_health in state.pools_health.items():
        count = len(pool_health.pool.members)
        server = state.server_of.get(resource)
        is_followed = server is not None and server.stream_live
        if count and not is_followed and resource not in state.waiting_for:
            devices = "1 device" if count == 1 else f"{count} devices"
            yield f"{resource} ({devices}): {_without_stream(state, resource)}"


def _without_stream(state: AgentState, resource: str) -> str:
    server = state.server_of.get(resource)
    if server is None:
        return "is not served yet"
    if server.registered_by:
        return "is registered, but kubelet has not opened its ListAndWatch stream"
    why = f": {server.last_error}" if server.last_error else ""
    return f"is not registered with kubelet{why}"


def _details(state: AgentState) -> Iterator[str]:
    if state.config.idle:
        yield state.config.idle
    if state.config.rejected and state.config.in_force:
        yield (
            "the configuration file is invalid, the last valid configuration is used: "
            f"{state.config.rejected}"
        )
    for refused in state.config.refused:
        yield f"pool {refused} is not served because of its errors"
    for path in state.hanging:
        yield f"the file system at {path} hangs: what needs it fails or waits"
    yield from sorted({server.note for server in state.servers if server.note})
    if state.netlink == "closed":
        yield "kernel events are unavailable; only the periodic scan sees changes of the host"

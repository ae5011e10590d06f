"""Makes the message that ``status``, ``/status`` and the page show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from agent.health.link import has_carrier, port_states
from agent.model.device import Device, Role
from agent.model.plugin_events import PoolServerState
from agent.pools.advice import advise
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import SHORT_LIFE_S
from agent.pools.pool import Member, Overlap, Pool
from agent.pools.reasons import Refusal
from agent.pools.suspects import suspicion
from agent.rpc.agent import v1
from agent.status.readiness import readiness
from agent.status.state import AgentState

Title = Callable[[str, str], str]
"""(vendor id, device id) -> name of the product, or an empty string."""


def _untitled(_vendor: str, _device: str) -> str:
    return ""


def status(state: AgentState, *, devices: bool = False, title: Title = _untitled) -> v1.StatusReply:
    """Make the whole message; with ``devices``, of each device too. May run in any thread."""
    ready = readiness(state)
    snapshot = state.pools.snapshot
    return v1.StatusReply(
        version=state.version,
        pid=state.pid,
        node=state.node,
        started_at=round(state.started_at, 3),
        now=round(state.now, 3),
        ready=ready.ready,
        missing=list(ready.missing),
        details=list(ready.details),
        config=_config(state),
        scan=v1.Scan(
            number=state.scan.number,
            took_ms=round(state.scan.took_s * 1000, 1),
            stalled_s=state.scan.stalled_s,
            functions=len(snapshot.devices),
        ),
        netlink=state.netlink,
        pools=[pool_message(p, state) for p in state.pools.pools],
        pfs=[_pf(d, state, title) for d in snapshot.devices if d.role is Role.PF],
        devices=list(device_messages(state)) if devices else [],
        overlaps=[overlap_message(o) for o in state.pools.overlaps],
    )


def _config(state: AgentState) -> v1.ConfigStatus:
    config = state.config
    return v1.ConfigStatus(
        path=config.path,
        in_force=config.in_force,
        rejected=config.rejected,
        pools=len(state.pools.config.pools),
        refused=list(config.refused),
        reloads=config.reloads,
        failures=config.failures,
    )


def overlap_message(overlap: Overlap) -> v1.Overlap:
    """How many devices of one pool another pool selects too."""
    return v1.Overlap(overlap.winner, overlap.loser, len(overlap.device_ids))


def pool_message(pool: Pool, state: AgentState) -> v1.Pool:
    """One pool with its funnel, its health and its registration."""
    pool_health = state.pools_health.get(pool.resource)
    reported = pool_health.state.reported if pool_health else {}
    causes = Counter(str(h.cause) for h in reported.values() if not h.healthy)
    held = state.pools.held.of(pool.resource)
    server = state.server_of.get(pool.resource)
    advice = advise(pool, state.pools)
    return v1.Pool(
        resource=pool.resource,
        device_type=str(pool.config.kind),
        devices=len(pool.members),
        healthy=sum(h.healthy for h in reported.values()),
        held=len(held & pool.by_id.keys()),
        causes=[v1.CauseCount(cause, count) for cause, count in sorted(causes.items())],
        funnel=[
            v1.FunnelStep(s.selector_object + 1, s.step, s.wanted, s.remaining) for s in pool.funnel
        ],
        notes=list(advice.notes),
        why_empty=list(advice.why_empty),
        server=_server(server, state) if server else None,
    )


def _server(server: PoolServerState, state: AgentState) -> v1.Server:
    return v1.Server(
        registered_by=server.registered_by or "",
        generation=server.generation,
        stream_live=server.stream_live,
        socket=server.socket or "",
        registrations=server.registrations,
        lists_pushed=server.lists_pushed,
        last_error=server.last_error or "",
        since=round(state.wall_time(server.since_s), 3),
    )


def _pf(device: Device, state: AgentState, title: Title) -> v1.Pf:
    netdev = state.links.newest(state.pools.snapshot.pf_netdev(device))
    return v1.Pf(
        address=device.id,
        name=netdev.name if netdev else device.pf_name or "",
        link=link_of(device, state),
        speed_mbps=netdev.speed_mbps if netdev else None,
        vendor=device.vendor,
        device=device.device,
        title=title(device.vendor, device.device),
        driver=device.driver or "",
        numa_node=device.numa_node,
        num_vfs=device.num_vfs,
        total_vfs=device.total_vfs,
        in_use=state.pools.in_use.get(device.id, ""),
    )


def link_of(pf: Device, state: AgentState) -> str:
    """The link of a PF in words."""
    netdev = state.links.newest(state.pools.snapshot.pf_netdev(pf))
    if pf.infiniband_ports or (netdev is not None and len(pf.ports) > 1):
        ports = port_states(pf, state.links)
        return "up" if True in ports else "down" if False in ports else "unknown"
    if netdev is None:
        return "no netdev"
    if netdev.admin_up is False:
        return "admin down"
    return {True: "up", False: "down", None: "unknown"}[has_carrier(netdev)]


def device_messages(state: AgentState) -> Iterator[v1.Device]:
    """Each device of the host, then the allocated ones that are no longer on the host."""
    gone = (m for p in state.pools.pools for m in p.members if not m.present)
    yield from (device_message(d, state) for d in state.pools.snapshot.devices)
    yield from (device_message(m.device, state) for m in gone if _is_absent(m, state))


def _is_absent(member: Member, state: AgentState) -> bool:
    return member.device.id not in state.pools.snapshot.by_id


def device_message(device: Device, state: AgentState) -> v1.Device:
    """One device with its pool, its health and its pod."""
    health = state.health_of(device.id)
    holder = state.pools.held.holders.get(device.id)
    pool = state.pools.resource_of.get(device.id, "")
    return v1.Device(
        id=device.id,
        role=str(device.role),
        pf=device.pf_address or "",
        index=device.index,
        driver=device.driver or "",
        pool=pool,
        health="" if health is None else "Healthy" if health.healthy else "Unhealthy",
        cause=str(health.cause) if health else "",
        since=state.changed_at.get(device.id),
        holder=holder_message(holder) if holder else None,
        refusal="" if pool else _plain_refusal(device, state),
        given_last=given_last(device, state) if pool and state.pools.held.complete else "",
    )


def given_last(device: Device, state: AgentState) -> str:
    """Why other devices are preferred to this one; empty = they are not."""
    if why := suspicion(device, state.pools):
        return why
    left_s = state.resting.get(device.id)
    if left_s is None or device.id in state.pools.held.holders:
        return ""
    return (
        f"came back within {SHORT_LIFE_S:g} s of its allocation, or could not be given: "
        f"other devices are preferred for {left_s:.0f} s"
    )


def holder_message(holder: PodOwner) -> v1.Holder:
    """The pod that a device is allocated to, as far as it is known."""
    return v1.Holder(
        holder.resource,
        holder.pod or "",
        holder.namespace or "",
        holder.container or "",
        holder.uid or "",
    )


def _plain_refusal(device: Device, state: AgentState) -> str:
    """Why no pool can have the device; empty = a pool may."""
    if device.has_vfs:
        return str(Refusal.HAS_VFS)
    if device.id in state.pools.without_driver:
        return str(Refusal.NO_DRIVER)
    if device.id in state.pools.sub_functions_in_use:
        return str(Refusal.SUB_FUNCTIONS)
    return str(Refusal.IN_USE) if device.id in state.pools.in_use else ""

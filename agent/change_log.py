"""Log events about changes in pools and health, with their causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agent import logs
from agent.events.devices import (
    DeviceInUse,
    DevicesAdded,
    DevicesChanged,
    DevicesHealthy,
    DevicesRemoved,
    DevicesSuspect,
    DevicesUnhealthy,
)
from agent.events.host import FunctionUnreadable, HostNetworkMissing, PfDown, RdmaModuleMissing
from agent.events.pools import (
    PoolAlternatives,
    PoolAssigned,
    PoolEmpty,
    PoolNote,
    PoolOverlap,
    PoolRemoved,
)
from agent.health.pool_health import Change, grouped
from agent.model.device import Device
from agent.pools.pool import Pool, Pools
from agent.pools.suspects import suspects

if TYPE_CHECKING:
    from agent.pools.advice import Advice

_CHANGES: Mapping[str, type[DevicesChanged]] = {
    "added": DevicesAdded,
    "removed": DevicesRemoved,
    "unhealthy": DevicesUnhealthy,
}
DEVICES_SHOWN = 64
"""How many ids a line lists; of the others it has only the number."""


def health_events(
    resource: str, changes: tuple[Change, ...]
) -> Iterator[DevicesChanged | DevicesHealthy]:
    """One event for each kind of change and each cause, with its devices."""
    for (what, health), ids in grouped(changes).items():
        count, devices = len(ids), join_ids(ids)
        if what == "healthy":
            yield DevicesHealthy(resource=resource, count=count, devices=devices, device_ids=ids)
        elif health.healthy:
            yield _CHANGES[what](resource=resource, count=count, devices=devices, device_ids=ids)
        else:
            yield _CHANGES[what](
                resource=resource,
                count=count,
                cause=str(health.cause),
                detail=health.detail,
                devices=devices,
                device_ids=ids,
            )


def log_unproven_links(unproven: Mapping[str, Device], before: Mapping[str, Device]) -> None:
    """Log each PF that went down and whose functions then have no reliable link state."""
    for pf in unproven.values():
        if pf.id not in before:
            logs.emit(PfDown(pf=pf.id, interface=pf.pf_name or "", driver=pf.driver or ""))


def join_ids(device_ids: tuple[str, ...]) -> str:
    """The ids as the text of one field, cut after ``DEVICES_SHOWN``."""
    text = ",".join(device_ids[:DEVICES_SHOWN])
    more = len(device_ids) - DEVICES_SHOWN
    return f"{text},... {more} more" if more > 0 else text


def why_empty(pool: Pool, before: Pools, after: Pools) -> Advice | None:
    """Why a pool became empty, for :func:`log_pool`; None if it did not.

    Pure, and slow for long lists, so it may run in a thread.
    """
    if pool.members or not _has_changed(pool, before):
        return None
    from agent.pools.advice import advise  # noqa: PLC0415 - needed for empty pools only

    return advise(pool, after)


def _has_changed(pool: Pool, before: Pools) -> bool:
    known = before.by_resource.get(pool.resource)
    return known is None or (known.funnel, known.notes) != (pool.funnel, pool.notes)


def log_pool(pool: Pool, before: Pools, advice: Advice | None) -> None:
    """Log the funnel of a pool that is new or has changed; ``advice`` is from ``why_empty``."""
    known = before.by_resource.get(pool.resource)
    if _has_changed(pool, before):
        _log_assigned(pool, advice)
    logged = known.alternatives if known else ()
    for alternative in pool.alternatives:
        if alternative not in logged:
            logs.emit(PoolAlternatives(resource=pool.resource, absent=alternative))


def log_removed(before: Pools, after: Pools) -> None:
    """Log removed pools, overlaps, faults of the host, and functions that the host uses."""
    for resource in before.by_resource.keys() - after.by_resource.keys():
        logs.emit(PoolRemoved(resource=resource))
    for overlap in after.overlaps:
        if overlap not in before.overlaps:
            logs.emit(
                PoolOverlap(
                    winner=overlap.winner,
                    loser=overlap.loser,
                    count=len(overlap.device_ids),
                    devices=join_ids(overlap.device_ids),
                )
            )
    _log_host_faults(before, after)
    _log_suspects(before, after)
    for device_id, how in after.in_use.items():
        if before.in_use.get(device_id) != how and device_id not in after.resource_of:
            logs.emit(DeviceInUse(device=device_id, how=how))


def _log_suspects(before: Pools, after: Pools) -> None:
    """Log functions that look broken, once it is known that no pod has them."""
    if not after.held.complete:
        return
    logged = suspects(before) if before.held.complete else {}
    for resource, found in suspects(after).items():
        by_driver: defaultdict[str, list[str]] = defaultdict(list)
        for device_id, driver in found.items():
            if device_id not in logged.get(resource, {}):
                by_driver[driver].append(device_id)
        for driver, ids in by_driver.items():
            logs.emit(
                DevicesSuspect(
                    resource=resource, count=len(ids), driver=driver, devices=join_ids(tuple(ids))
                )
            )


def _log_host_faults(before: Pools, after: Pools) -> None:
    """Log missing PF netdevs, kernel modules for RDMA device nodes, and sysfs attributes."""
    old, new = before.snapshot, after.snapshot
    if new.has_no_nic and not old.has_no_nic:
        logs.emit(HostNetworkMissing(pfs=join_ids(tuple(new.pfs))))
    if any(m.selectors.is_rdma for p in after.pools for m in p.members):
        for module in sorted(set(new.missing_rdma_modules) - set(old.missing_rdma_modules)):
            logs.emit(RdmaModuleMissing(module=module))
    for function, attribute in sorted(set(new.unreadable) - set(old.unreadable)):
        logs.emit(FunctionUnreadable(function=function, attribute=attribute))


def _log_assigned(pool: Pool, advice: Advice | None) -> None:
    logs.emit(
        PoolAssigned(resource=pool.resource, devices=len(pool.members), funnel=funnel_text(pool))
    )
    for why in advice.why_empty if advice else ():
        logs.emit(PoolEmpty(resource=pool.resource, why=why))
    for note in advice.notes if advice else pool.notes:
        if note not in pool.minor_notes:
            logs.emit(PoolNote(resource=pool.resource, note=note))


def funnel_text(pool: Pool) -> str:
    """``kind netDevice 18 > without VFs 16 > vendors 8086 16 > ...``: functions left."""
    several = len(pool.config.selectors) > 1
    parts = []
    for step in pool.funnel:
        place = f"[{step.selector_object + 1}] " if several and step.selector_object >= 0 else ""
        wanted = f" {step.wanted}" if step.wanted else ""
        parts.append(f"{place}{step.step}{wanted}: {step.remaining}")
    return " > ".join(parts)

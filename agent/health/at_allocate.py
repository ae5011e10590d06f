"""The last check before a device is given to a pod, on facts read for this answer."""

from __future__ import annotations

from agent.health.driver import check_driver
from agent.health.group import check_group
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Member, Pool, Pools
from agent.selectors import SELECTORS


def fault_at_allocate(pool: Pool, member: Member, pools: Pools, held: AllocatedDevices) -> str:
    """Why a device must not be given to a pod now; empty = it may be given.

    ``member`` has fresh facts, ``pools`` and ``held`` are the newest that are known. A fact that
    goes with the device into a pod's network namespace may be hidden still, and is no fault then.
    """
    device = member.device
    if device.has_vfs:
        return "is a PF, and has VFs now"
    if use := pools.sub_functions_in_use.get(device.id):
        return f"is a PF, and {use}"
    verdict = check_driver(member, pools.snapshot, held=True)
    if not verdict.healthy:
        return verdict.detail
    return _selected_fact(member, pools) or (
        check_group(device, pool.config, pools.snapshot, held).detail
    )


def _selected_fact(member: Member, pools: Pools) -> str:
    """Which selected fact is another now than when the device joined its pool."""
    device, snapshot = member.device, pools.snapshot
    for criterion in member.selectors.criteria:
        selector = SELECTORS[criterion.key]
        if selector.is_observable(device) and not selector.matches(
            device, criterion.wanted, snapshot
        ):
            wanted = selector.to_text(criterion.wanted)
            found = selector.describe(device, snapshot)
            return f"changed since the last scan: {criterion.key}: {found}, wanted {wanted}"
    return ""

"""The last check before a device is allocated, on facts that were read for this request."""

from __future__ import annotations

from agent.health.check import CheckInputs
from agent.health.driver import check_driver
from agent.health.group import check_group
from agent.model.link import Links
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Member, Pool, Pools
from agent.selectors import SELECTORS


def fault_at_allocate(pool: Pool, member: Member, pools: Pools, held: AllocatedDevices) -> str:
    """Why a device must not be allocated now; empty = it may be allocated.

    ``member`` has fresh facts, ``pools`` and ``held`` are the newest that are known. A fact that
    moves with the device to a pod's network namespace may still be hidden, which is no fault.
    """
    device = member.device
    if device.has_vfs:
        return "is a PF that now has VFs"
    if use := pools.sub_functions_in_use.get(device.id):
        return f"is a PF, and {use}"
    verdict = check_driver(pools.snapshot, {device.id}, member)
    if not verdict.healthy:
        return verdict.detail
    inputs = CheckInputs(pool.config, pools.snapshot, held, Links())
    return _selected_fact(member, pools) or check_group(inputs, member).detail


def _selected_fact(member: Member, pools: Pools) -> str:
    """Which selected fact has changed since the device joined its pool; empty = none."""
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

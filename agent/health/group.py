"""Health check *group*: whether a pod could open the IOMMU group of a device that is bound to vfio.

A free device whose group a pod holds by another function is Unhealthy, so that the scheduler does
not count it; it becomes Healthy when that pod ends. Pools with ``shareIommuGroup`` skip this part.
"""

from __future__ import annotations

from functools import partial

from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.verdict import HEALTHY, Cause, Health
from agent.pools.groups import group_fault, group_holder
from agent.pools.pool import Member


def check_group(inputs: CheckInputs, member: Member) -> Health:
    """Unhealthy if vfio would refuse the device's group, or if another pod has it."""
    device, snapshot = member.device, inputs.snapshot
    if not member.present or device.iommu_group not in snapshot.shared_groups:
        return HEALTHY
    if fault := group_fault(device, snapshot):
        return Health(Cause.GROUP_NOT_VIABLE, fault)
    is_shared = inputs.config.share_iommu_group
    if not is_shared and (holder := group_holder(device, snapshot, inputs.allocated)):
        return Health(Cause.GROUP_IN_USE, holder)
    return HEALTHY


def _prepare(inputs: CheckInputs) -> MemberCheck:
    return partial(check_group, inputs)


GROUP = Check(
    causes=frozenset({Cause.GROUP_NOT_VIABLE, Cause.GROUP_IN_USE}),
    prepare=_prepare,
)

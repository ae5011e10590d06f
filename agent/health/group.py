"""Health check *group*: whether a pod could open the IOMMU group of a device that is bound to vfio.

A free device whose group another pod has is Unhealthy, so that the scheduler does not count it; it
heals when that pod ends. Pools with ``shareIommuGroup`` hand it out all the same.
"""

from __future__ import annotations

from agent.config.schema import PoolConfig
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.pools.groups import group_fault, group_holder


def check_group(
    device: Device, config: PoolConfig, snapshot: Snapshot, held: AllocatedDevices
) -> Health:
    """Unhealthy where vfio would refuse the device's group, or another pod has it."""
    if device.iommu_group not in snapshot.shared_groups:
        return HEALTHY
    if fault := group_fault(device, snapshot):
        return Health(Cause.GROUP_NOT_VIABLE, fault)
    if not config.share_iommu_group and (holder := group_holder(device, snapshot, held)):
        return Health(Cause.GROUP_IN_USE, holder)
    return HEALTHY

"""Health check *driver*: while a pod holds a device, its driver and nodes must stay as promised.

A device that nobody holds needs no check: one whose driver changes leaves the pool by itself.
"""

from __future__ import annotations

from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.snapshot import Snapshot
from agent.pools.allocation import lost_node
from agent.pools.pool import Member
from agent.pools.usable import NO_DRIVER
from agent.selectors import SELECTORS


def check_driver(member: Member, snapshot: Snapshot, *, held: bool) -> Health:
    """Unhealthy where the driver of a held device left the pool's selectors, or a node is missing.

    A device without any driver is Unhealthy too: a scan takes it from the pool unless a pod holds
    it.

    A node is looked at for free devices too: without it an allocation would fail. RDMA and vDPA
    devices that are not here are no fault, since a pod's namespace hides them.
    """
    device = member.device
    if not member.present:
        return HEALTHY
    if held:
        for criterion in member.selectors.criteria:
            selector = SELECTORS[criterion.key]
            if selector.is_promised and not selector.matches(device, criterion.wanted, snapshot):
                fact = selector.describe(device, snapshot)
                wanted = selector.text_of(criterion.wanted)
                return Health(Cause.DRIVER, f"{fact}, but the pool selects {selector.key} {wanted}")
    if device.lacks_driver:
        return Health(Cause.DRIVER, NO_DRIVER)
    if lack := lost_node(member, snapshot.nodes):
        return Health(Cause.NODE, lack)
    return HEALTHY

"""Health check *driver*: the driver and the device nodes that a pod was promised must stay.

The selected facts are checked only while a pod holds the device: a free device whose driver
changes leaves the pool with the next scan. Device nodes are checked for free devices too, since an
allocation without them would fail. RDMA and vDPA devices may be missing here, because a pod's
network namespace hides them.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.snapshot import Snapshot
from agent.pools.allocation import lost_node
from agent.pools.pool import Member
from agent.pools.usable import NO_DRIVER
from agent.selectors import SELECTORS


def check_driver(snapshot: Snapshot, held: Container[str], member: Member) -> Health:
    """Unhealthy if a held device no longer has its driver, or if a device node is missing.

    ``held`` are the ids of the devices that pods hold from the pool. A device without any driver
    is Unhealthy too: a scan removes it from the pool unless a pod holds it.
    """
    device = member.device
    if not member.present:
        return HEALTHY
    if device.id in held and (changed := _broken_promise(member, snapshot)):
        return Health(Cause.DRIVER, changed)
    if device.lacks_driver:
        return Health(Cause.DRIVER, NO_DRIVER)
    if missing := lost_node(member, snapshot.nodes):
        return Health(Cause.NODE, missing)
    return HEALTHY


def _broken_promise(member: Member, snapshot: Snapshot) -> str:
    """Which fact that must stay has changed; empty = none."""
    for criterion in member.selectors.criteria:
        selector = SELECTORS[criterion.key]
        if selector.is_promised and not selector.matches(member.device, criterion.wanted, snapshot):
            fact = selector.describe(member.device, snapshot)
            wanted = selector.text_of(criterion.wanted)
            return f"{fact}, but the pool selects {selector.key} {wanted}"
    return ""


def _prepare(inputs: CheckInputs) -> MemberCheck:
    return partial(check_driver, inputs.snapshot, inputs.allocated.of(inputs.config.resource))


DRIVER = Check(causes=frozenset({Cause.DRIVER, Cause.NODE}), prepare=_prepare)

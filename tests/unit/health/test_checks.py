from __future__ import annotations

import attrs
import pytest

from agent.health.assess import assess, faults
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.device import Device, Netdev
from agent.model.link import Links
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Pools
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, held, pool

DEAD = Netdev("pf0", admin_up=True, carrier=False)
LIVE = Netdev("pf0", admin_up=True, carrier=True)
GONE = Health(Cause.GONE, "a pod holds it, and the host no longer has it")
NO_GROUP = Health(Cause.NODE, "is bound to vfio-pci but has no IOMMU group")


def parent(uplink: Netdev = LIVE) -> Device:
    return pf("0000:3b:00.0", "pf0", num_vfs=2, netdevs=(uplink,))


def function(index: int = 0, **facts: object) -> Device:
    return vf(f"0000:3b:02.{index}", parent(), index, **facts)


def verdicts(pools: Pools) -> list[Health]:
    return list(assess(pools.pools[0], pools, Links(), faults(pools.pools[0], pools)).values())


def judged(
    *devices: Device,
    uplink: Netdev = LIVE,
    held: AllocatedDevices | None = None,
    selectors: dict[str, object] | None = None,
    **keys: object,
) -> list[Health]:
    pools = assigned(host(parent(uplink), *devices), pool("vf", selectors or {}, **keys), held=held)
    return verdicts(pools)


def test_a_free_device_on_a_pf_with_a_link_is_healthy() -> None:
    assert judged(function()) == [HEALTHY]


def test_every_member_is_judged_in_the_order_of_the_pool() -> None:
    node = host(parent(DEAD), function(1), function(0))
    pools = assigned(node, pool("vf"))
    assert list(assess(pools.pools[0], pools, Links(), {})) == ["0000:3b:02.0", "0000:3b:02.1"]


def test_a_held_device_that_disappeared_is_unhealthy() -> None:
    assert judged(held=held("vf", function())) == [GONE]


def test_a_device_that_disappeared_is_reported_as_gone_before_other_faults() -> None:
    lost = function(driver="vfio-pci", iommu_group=None)
    assert judged(uplink=DEAD, held=held("vf", lost)) == [GONE]


def test_a_held_device_whose_driver_left_the_pools_selectors_is_unhealthy() -> None:
    was = function(driver="vfio-pci", iommu_group=1)
    now = function(driver="iavf")
    assert judged(now, held=held("vf", was), selectors={"drivers": ["vfio-pci"]}) == [
        Health(Cause.DRIVER, "driver iavf, but the pool selects drivers vfio-pci")
    ]


def test_a_held_device_that_lost_its_driver_is_reported_as_bound_to_none() -> None:
    now = function(driver=None)
    (verdict,) = judged(now, held=held("vf", now), selectors={"drivers": ["iavf"]})
    assert verdict == Health(Cause.DRIVER, "no driver bound, but the pool selects drivers iavf")


def test_without_a_driver_selector_a_held_device_may_have_any_driver() -> None:
    now = function(driver="another")
    assert judged(now, held=held("vf", now)) == [HEALTHY]


def test_a_held_device_without_any_driver_is_unhealthy_in_a_pool_that_names_no_drivers() -> None:
    now = function(driver=None)
    assert judged(now, held=held("vf", now)) == [
        Health(Cause.DRIVER, "no driver is bound, so no pod could use it")
    ]


def test_hidden_facts_of_a_held_device_are_no_fault() -> None:
    now = function()
    selectors = {"linkTypes": ["ether"], "isRdma": True, "drivers": ["iavf"]}
    assert judged(now, held=held("vf", now), selectors=selectors) == [HEALTHY]


@pytest.mark.parametrize("holding", [True, False], ids=["held", "free"])
def test_a_vfio_device_without_its_group_is_unhealthy_held_or_not(holding: bool) -> None:  # noqa: FBT001
    bare = function(driver="vfio-pci")
    assert judged(bare, held=held("vf", bare) if holding else None) == [NO_GROUP]


def test_a_uio_device_without_its_node_is_unhealthy() -> None:
    assert judged(function(driver="igb_uio")) == [
        Health(Cause.NODE, "is bound to igb_uio but has no UIO node")
    ]
    assert judged(function(driver="igb_uio", uio=("uio0",))) == [HEALTHY]


def test_an_rdma_device_that_is_hidden_in_a_pods_namespace_is_not_a_fault() -> None:
    free = function(rdma_enabled=True)
    assert judged(free, selectors={"isRdma": True}) == [HEALTHY]


def test_a_link_failure_ranks_behind_failures_of_driver_and_node() -> None:
    assert [v.cause for v in judged(function(), uplink=DEAD)] == [Cause.NO_CARRIER]
    assert judged(function(driver="vfio-pci"), uplink=DEAD) == [NO_GROUP]


def test_a_held_device_without_a_link_is_unhealthy_like_any_other() -> None:
    now = function()
    assert [v.cause for v in judged(now, uplink=DEAD, held=held("vf", now))] == [Cause.NO_CARRIER]


def test_the_link_check_can_be_turned_off_for_a_pool() -> None:
    assert judged(function(), uplink=DEAD, health={"link": False}) == [HEALTHY]


def test_without_the_link_check_the_other_checks_stay() -> None:
    lost = function(1)
    bare = attrs.evolve(function(), driver="vfio-pci")
    found = judged(bare, uplink=DEAD, held=held("vf", lost), health={"link": False})
    assert found == [NO_GROUP, GONE]

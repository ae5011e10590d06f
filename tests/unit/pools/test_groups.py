"""IOMMU groups with several functions: who may be given what, and what people are told."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.health.assess import faults
from agent.health.pool_health import assess_pool
from agent.health.verdict import Cause
from agent.model.device import Device, OtherFunction
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.groups import group_fault, with_held_mates
from agent.pools.pool import Pools
from agent.pools.preference import prefer
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=8)
A, B, C = (f"0000:3b:02.{n}" for n in range(3))
VF = "intel.com/vf"


def vfio(address: str, index: int, group: int, **facts: Any) -> Device:  # noqa: ANN401 - facts
    return vf(address, PF0, index, **{"driver": "vfio-pci", "iommu_group": group} | facts)


NODE = host(PF0, vfio(A, 0, 33), vfio(B, 1, 33), vfio(C, 2, 34))


def holding(*ids: str, resource: str = VF) -> AllocatedDevices:
    return AllocatedDevices({i: PodOwner(resource, "a", "ns") for i in ids})


def causes(pools: Pools, resource: str = VF) -> dict[str, tuple[str, str]]:
    found = faults(pools.by_resource[resource], pools)
    return {device_id: (health.cause, health.detail) for device_id, health in found.items()}


def test_a_free_device_whose_group_another_pod_has_is_unhealthy() -> None:
    assert causes(assigned(NODE, pool("vf"))) == {}
    detail = f"shares IOMMU group 33 with {A}, held by pod ns/a"
    pools = assigned(NODE, pool("vf"), held=holding(A))
    assert causes(pools) == {B: (Cause.GROUP_IN_USE, detail)}


def test_group_mates_that_pods_hold_are_both_healthy() -> None:
    assert causes(assigned(NODE, pool("vf"), held=holding(A, B))) == {}


def test_a_pool_may_share_groups() -> None:
    pools = assigned(NODE, pool("vf", shareIommuGroup=True), held=holding(A))
    assert causes(pools) == {}
    assert pools.pools[0].notes == ()


def test_groups_are_shared_across_pools_and_with_resources_that_are_not_configured() -> None:
    apart = (pool("a", {"pfNames": ["pf0#0"]}), pool("b", {"pfNames": ["pf0#1-2"]}))
    for resource in ("intel.com/a", "other.com/x"):
        pools = assigned(NODE, *apart, held=holding(A, resource=resource))
        assert [c for c, _ in causes(pools, "intel.com/b").values()] == [Cause.GROUP_IN_USE]


def test_a_free_mate_on_another_driver_than_vfio_is_not_refused() -> None:
    node = host(PF0, vfio(A, 0, 33), vfio(B, 1, 33, driver=None))
    assert group_fault(node.devices[1], node) == ""


@pytest.mark.parametrize("driver", [None, "pci-stub", "vfio-pci", "mlx5_vfio_pci"])
def test_a_group_is_viable_with_drivers_that_do_not_use_it(driver: str | None) -> None:
    node = host(PF0, vfio(A, 0, 33), vfio(B, 1, 33, driver=driver))
    assert group_fault(node.devices[1], node) == ""


def test_a_group_with_a_function_on_a_kernel_driver_is_not_viable() -> None:
    node = host(PF0, vfio(A, 0, 33), vfio(B, 1, 33, driver="iavf"))
    pools = assigned(node, pool("vf", {"drivers": ["vfio-pci"]}), pool("net"))
    cause, detail = causes(pools)[A]
    assert cause is Cause.GROUP_NOT_VIABLE
    assert detail.startswith(f"IOMMU group 33 is not viable: {B} is bound to iavf; vfio opens")
    assert causes(pools, "intel.com/net") == {}


def test_a_group_with_the_pf_is_not_viable() -> None:
    node = host(attrs.evolve(PF0, iommu_group=33), vfio(A, 0, 33))
    assert f"PF {PF0.id} is bound to i40e" in group_fault(node.devices[1], node)


def other(pci_class: int, driver: str | None) -> Snapshot:
    mate = OtherFunction("0000:00:1c.0", pci_class, driver, 33)
    return attrs.evolve(host(PF0, vfio(A, 0, 33)), group_mates=(mate,))


@pytest.mark.parametrize(
    ("pci_class", "driver", "blocks"),
    [
        (0x060400, "pcieport", False),
        (0x060100, "lpc_ich", True),
        (0x0C0330, "xhci_hcd", True),
        (0x0C0330, None, False),
        (0x0C0330, "vfio-pci", False),
    ],
)
def test_functions_of_other_classes_count_except_pci_bridges(
    pci_class: int,
    driver: str | None,
    blocks: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    node = other(pci_class, driver)
    assert bool(group_fault(node.devices[1], node)) is blocks


def test_groups_that_vfio_creates_without_an_iommu_are_never_shared() -> None:
    made_up = host(PF0, *(vfio(a, i, 0, noiommu=True) for i, a in enumerate((A, B))))
    assert made_up.shared_groups == {}


def test_functions_that_share_a_group_are_logged() -> None:
    (note,) = assigned(NODE, pool("vf")).pools[0].notes
    assert f"33 ({A}, {B})" in note
    assert "34" not in note


@pytest.mark.parametrize("policy", ["", "packed", "spread", "numa"])
def test_a_mate_of_a_held_device_is_preferred_last(policy: str) -> None:
    pools = assigned(NODE, pool("vf", allocationPolicy=policy), held=holding(A))
    chosen = pools.by_resource[VF]
    assert with_held_mates(chosen.members, pools) == {B}
    last = {B: 1}
    policy_of = chosen.config.allocation_policy
    assert policy_of is not None
    assert prefer(chosen, (B, C), (), 1, policy_of, last=last) == (C,)
    assert prefer(chosen, (B, C), (), 2, policy_of, last=last) == (B, C)
    assert prefer(chosen, (B, C), (B,), 1, policy_of, last=last) == (B,)


def test_the_list_follows_the_holders_of_group_mates_in_other_pools() -> None:
    free = assigned(NODE, pool("a", {"pfNames": ["pf0#0"]}), pool("b", {"pfNames": ["pf0#1-2"]}))
    taken = attrs.evolve(free, held=holding(A, resource="intel.com/a"))
    pool_health, told = None, []
    for pools in (free, taken, free):
        pool_health = assess_pool(
            pool_health, pools.by_resource["intel.com/b"], pools, Links(), 0.0, {}
        )
        told.append([d.healthy for d in pool_health.offer().devices])
    assert told == [[True, True], [False, True], [False, True]]
    assert pool_health is not None
    assert pool_health.next_due == 1.0  # good news waits for its hold

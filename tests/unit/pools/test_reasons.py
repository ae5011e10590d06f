from __future__ import annotations

import attrs
import pytest

from agent.kinds import ACCELERATOR
from agent.model.device import Netdev
from agent.model.snapshot import Snapshot
from agent.pools.pool import Pools
from agent.pools.reasons import Reason, Refusal, pool_verdict, reason
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
SPARE = pf("0000:3b:00.1", "pf1")
VF0, VF1 = (vf(f"0000:3b:02.{i}", PF0, i) for i in range(2))
NODE = host(PF0, SPARE, VF0, VF1)


def why(pools: Pools, device_id: str) -> tuple[Refusal | None, str]:
    told = reason(pools.snapshot.by_id[device_id], pools)
    return told.refusal, told.text


def test_the_explanation_of_a_selected_device_names_its_pool() -> None:
    pools = assigned(NODE, pool("vf", {"pfNames": ["pf0"]}))
    assert reason(VF0, pools) == Reason(VF0.id, "intel.com/vf", None, "selected by intel.com/vf")


def test_of_several_selector_objects_the_choosing_one_is_shown_counted_from_one() -> None:
    pools = assigned(NODE, pool("vf", {"pfNames": ["pf0#0"]}, {"pfNames": ["pf0#1"]}))
    assert why(pools, VF1.id) == (None, "selected by intel.com/vf, selector object 2")


def test_the_pod_that_holds_a_selected_device_is_shown() -> None:
    pools = assigned(NODE, pool("vf"), held=held("vf", VF0))
    assert why(pools, VF0.id) == (None, "selected by intel.com/vf; held by pod default/pod")


def test_the_explanation_of_a_pf_with_vfs_says_that_it_is_never_a_device() -> None:
    pools = assigned(NODE, pool("vf"))
    assert why(pools, PF0.id) == (
        Refusal.HAS_VFS,
        "a PF with VFs (2): pods get its VFs, never the PF itself",
    )


def test_a_device_without_a_pool_of_its_kind_is_explained() -> None:
    fec = pf("0000:b0:00.0", kind=ACCELERATOR, pci_class=0x120000)
    pools = assigned(host(fec), pool("vf"))
    assert why(pools, fec.id) == (Refusal.NO_POOL_OF_KIND, "no pool of deviceType accelerator")


def test_without_any_pool_the_use_by_the_host_is_still_shown() -> None:
    node = Snapshot(devices=(SPARE,), default_route_netdevs=("pf1",))
    assert why(assigned(node), SPARE.id) == (
        Refusal.IN_USE,
        "in use by the host: pf1 carries the default route",
    )


def test_the_explanation_of_a_function_in_use_says_how_and_which_key_overrides_it() -> None:
    node = Snapshot(devices=(SPARE, VF0), default_route_netdevs=("pf1",))
    assert why(assigned(node, pool("nic")), SPARE.id) == (
        Refusal.IN_USE,
        'in use by the host: pf1 carries the default route ("allowInUse": true would override)',
    )


def test_a_refusing_selector_shows_the_actual_and_the_wanted_value() -> None:
    pools = assigned(NODE, pool("dpdk", {"pfNames": ["pf0"], "drivers": ["vfio-pci"]}))
    assert why(pools, VF0.id) == (
        Refusal.SELECTOR,
        "not in intel.com/dpdk: drivers: driver iavf, wanted vfio-pci",
    )


def test_the_explanation_of_a_pf_in_pf_names_says_that_only_its_functions_are_selected() -> None:
    pools = assigned(NODE, pool("pf", {"pfNames": ["pf1"]}))
    assert why(pools, SPARE.id) == (
        Refusal.SELECTOR,
        "not in intel.com/pf: pfNames: is the PF pf1 itself, wanted pf1",
    )


def test_the_explanation_of_a_device_held_under_a_removed_resource_says_so() -> None:
    pools = assigned(NODE, pool("vf"), held=held("retired", VF0))
    holding = "held by pod default/pod as intel.com/retired"
    assert why(pools, VF0.id) == (
        Refusal.HELD,
        f"not in intel.com/vf: {holding}, which is not a configured resource",
    )


def test_the_explanation_of_a_device_says_that_it_waits_for_the_host_to_settle() -> None:
    pools = assigned(NODE, pool("vf"))
    waiting = attrs.evolve(pools, pools=(attrs.evolve(pools.pools[0], members=()),))
    assert why(waiting, VF0.id) == (
        Refusal.UNSETTLED,
        "not in intel.com/vf: matches; will join once the host settles",
    )


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_pools_the_nearest_miss_is_shown(turned: bool) -> None:  # noqa: FBT001
    near = pool("near", {"vendors": ["8086"], "pfNames": ["pf0"], "drivers": ["vfio-pci"]})
    far = pool("far", {"vendors": ["15b3"]})
    pools = assigned(NODE, *((far, near) if turned else (near, far)))
    assert why(pools, VF0.id)[1] == "not in intel.com/near: drivers: driver iavf, wanted vfio-pci"


def test_of_several_objects_the_one_that_failed_last_is_shown() -> None:
    pools = assigned(
        NODE, pool("vf", {"vendors": ["15b3"]}, {"vendors": ["8086"], "devices": ["1889"]})
    )
    assert why(pools, VF0.id)[1] == "not in intel.com/vf: devices: device 154c, wanted 1889"


def test_use_by_the_host_ranks_as_nearer_than_any_refusing_selector() -> None:
    node = Snapshot(devices=(SPARE,), default_route_netdevs=("pf1",))
    pools = assigned(
        node, pool("a", {"vendors": ["8086"], "drivers": ["ice"]}), pool("b", {"drivers": ["i40e"]})
    )
    assert why(pools, SPARE.id)[0] is Refusal.IN_USE


def test_the_verdict_of_a_pool_names_the_earlier_pool_that_has_the_device() -> None:
    pools = assigned(NODE, pool("first"), pool("second"))
    verdict = pool_verdict(VF0, pools.config.pools[1], pools)
    assert (verdict.chosen, verdict.refusal) == (False, Refusal.TAKEN)
    assert verdict.text == "taken by the earlier pool intel.com/first"


def test_the_explanation_of_a_pool_of_another_kind_names_its_kind() -> None:
    pools = assigned(NODE, pool("fec", deviceType="accelerator"))
    verdict = pool_verdict(VF0, pools.config.pools[0], pools)
    assert (verdict.refusal, verdict.text) == (
        Refusal.NO_POOL_OF_KIND,
        "has deviceType netDevice, the pool has accelerator",
    )
    assert verdict.objects == ()


def test_the_verdict_on_a_pf_with_vfs_needs_no_selector() -> None:
    pools = assigned(NODE, pool("vf"))
    verdict = pool_verdict(PF0, pools.config.pools[0], pools)
    assert (verdict.chosen, verdict.refusal, verdict.objects) == (False, Refusal.HAS_VFS, ())


def test_a_pools_verdict_has_the_result_of_every_selector_also_after_the_first_refusal() -> None:
    pools = assigned(
        NODE, pool("vf", {"vendors": ["15b3"], "pfNames": ["pf0"], "drivers": ["vfio-pci"]})
    )
    (only,) = pool_verdict(VF0, pools.config.pools[0], pools).objects
    assert [(v.key, v.passed) for v in only.verdicts] == [
        ("vendors", False),
        ("pfNames", True),
        ("drivers", False),
    ]
    assert (only.refusal, only.selector_object) == (Refusal.SELECTOR, 0)


def test_the_verdict_of_the_choosing_pool_has_that_of_each_object() -> None:
    pools = assigned(NODE, pool("vf", {"pfNames": ["pf0#1"]}, {"pfNames": ["pf0#0"]}))
    verdict = pool_verdict(VF0, pools.config.pools[0], pools)
    assert verdict.chosen
    assert [o.refusal for o in verdict.objects] == [Refusal.SELECTOR, None]


def test_a_held_device_with_hidden_facts_is_explained_as_selected() -> None:
    shown = attrs.evolve(VF0, netdevs=(Netdev("v0", link_type="ether"),))
    pools = assigned(host(PF0, VF0), pool("vf", {"linkTypes": ["ether"]}), held=held("vf", shown))
    assert why(pools, VF0.id) == (None, "selected by intel.com/vf; held by pod default/pod")

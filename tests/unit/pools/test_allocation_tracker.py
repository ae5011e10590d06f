from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, NET_DEVICE
from agent.model.device import Netdev, RdmaDevice, Role
from agent.pools.allocated import AllocatedDevices, PodOwner, unknown_device
from agent.pools.allocation_tracker import (
    CONFIRM_WITHIN_S,
    AllocationTracker,
    KubeletReport,
    Unconfirmed,
)
from agent.pools.assign import assign
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import assigned, config, held, members, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=3)
VFS = tuple(
    vf(
        f"0000:3b:02.{i}",
        PF0,
        i,
        netdevs=(Netdev(f"pf0v{i}", link_type="ether"),),
        rdma=(RdmaDevice(f"mlx5_{i}"),),
    )
    for i in range(3)
)
HIDDEN = attrs.evolve(VFS[1], netdevs=(), rdma=())
POD = PodOwner("intel.com/vf", "pod", "default", "main")
Objects = tuple[dict[str, object], ...]


def confirmed(
    tracker: AllocationTracker, pods: Mapping[str, PodOwner], asked_at: float
) -> AllocationTracker:
    """After a complete answer of pod-resources that was requested at ``asked_at``."""
    return tracker.heard(KubeletReport(pods, is_complete=True), asked_at)


def test_a_held_device_stays_in_its_pool_while_its_facts_are_hidden_in_the_pod() -> None:
    node = host(PF0, VFS[0], HIDDEN, VFS[2])
    wanted = {"linkTypes": ["ether"], "isRdma": True}
    pools = assigned(node, pool("vf", wanted), held=held("vf", VFS[1]))
    assert members(pools) == {"vf": [v.id for v in VFS]}
    assert pools.pools[0].by_id[HIDDEN.id].device == HIDDEN
    assert all(m.present for m in pools.pools[0].members)


def test_a_held_device_is_not_assigned_to_an_earlier_pool_that_matches_it() -> None:
    pools = assigned(host(PF0, *VFS), pool("early"), pool("vf"), held=held("vf", VFS[1]))
    assert members(pools) == {"early": [VFS[0].id, VFS[2].id], "vf": [VFS[1].id]}


def test_a_held_device_that_disappeared_stays_as_not_present_with_its_last_facts() -> None:
    pools = assigned(host(PF0, VFS[0], VFS[2]), pool("vf"), held=held("vf", VFS[1]))
    assert members(pools) == {"vf": [v.id for v in VFS]}
    gone = pools.pools[0].by_id[VFS[1].id]
    assert not gone.present
    assert gone.device == VFS[1]


def test_for_a_device_that_was_never_seen_only_the_id_is_known() -> None:
    pools = assigned(host(PF0, *VFS), pool("vf"), held=held("vf", "0000:af:02.0"))
    gone = pools.pools[0].by_id["0000:af:02.0"]
    assert not gone.present
    assert gone.device == unknown_device("0000:af:02.0", NET_DEVICE)
    assert (gone.device.role, gone.device.pci_address) == (Role.VF, "0000:af:02.0")
    assert members(pools)["vf"][-1] == "0000:af:02.0"


def test_an_id_that_is_not_a_pci_address_is_accepted_and_sorted_last() -> None:
    pools = assigned(host(PF0, *VFS), pool("vf"), held=held("vf", "mlx5_core.sf.2", ""))
    assert members(pools) == {"vf": [*(v.id for v in VFS), "", "mlx5_core.sf.2"]}


def test_a_held_device_whose_kind_changed_counts_as_gone() -> None:
    crypto = attrs.evolve(VFS[1], kind=ACCELERATOR, pci_class=0x120000)
    pools = assigned(
        host(PF0, VFS[0], crypto),
        pool("vf"),
        pool("fec", deviceType="accelerator"),
        held=held("vf", VFS[1]),
    )
    assert [(m.device.id, m.present) for m in pools.pools[0].members] == [
        (VFS[0].id, True),
        (VFS[1].id, False),
    ]
    assert members(pools)["fec"] == []


def test_a_held_pf_that_got_vfs_counts_as_gone() -> None:
    spare = pf("0000:3b:00.1", "pf1")
    pools = assigned(host(attrs.evolve(spare, num_vfs=2)), pool("pf"), held=held("pf", spare))
    assert [(m.device.id, m.present) for m in pools.pools[0].members] == [(spare.id, False)]


def test_devices_held_under_a_removed_resource_are_in_no_other_pool() -> None:
    pools = assigned(host(PF0, *VFS), pool("vf"), held=held("retired", VFS[1]))
    assert members(pools) == {"vf": [VFS[0].id, VFS[2].id]}
    assert pools.overlaps == ()


def test_a_held_device_has_the_selector_object_that_matches_most_of_its_facts() -> None:
    objects = ({"pfNames": ["pf0#0-1"], "isRdma": True}, {"pfNames": ["pf0#2"], "isRdma": True})
    last = attrs.evolve(VFS[2], rdma=(), netdevs=())
    pools = assigned(
        host(PF0, VFS[0], HIDDEN, last), pool("vf", *objects), held=held("vf", VFS[1], VFS[2])
    )
    assert {i: m.selector_object for i, m in pools.pools[0].by_id.items()} == {
        VFS[0].id: 0,
        HIDDEN.id: 0,
        last.id: 1,
    }


WIDE_FIRST: Objects = (
    {"drivers": ["iavf"]},
    {"vendors": ["8086"], "devices": ["1889"], "pfNames": ["pf0"], "drivers": ["vfio-pci"]},
)
RDMA_FIRST: Objects = (
    {"vendors": ["8086"], "isRdma": True},
    {"vendors": ["8086"], "drivers": ["iavf"], "linkTypes": ["ether"]},
)


@pytest.mark.parametrize("objects", [WIDE_FIRST, RDMA_FIRST])
@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_device_keeps_its_selector_object_when_a_pod_gets_it(
    objects: Objects, *, is_remembered: bool
) -> None:
    node, file = host(PF0, *VFS), pool("vf", *objects)
    (before,) = assigned(node, file).pools
    chosen = {i: m.selectors for i, m in before.by_id.items()} if is_remembered else {}
    tracker = AllocationTracker().allocated("intel.com/vf", before.by_id, 1.0, chosen)
    (after,) = assign(node, config(file), tracker.held).pools
    assert after.members == before.members
    assert {m.selector_object for m in after.members} == {0}


def test_the_choosing_selector_object_is_remembered_while_facts_are_hidden() -> None:
    objects = ({"vendors": ["8086"], "isRdma": True}, {"vendors": ["8086"]})
    file = pool("vf", *objects)
    member = assigned(host(PF0, *VFS), file).pools[0].by_id[HIDDEN.id]
    tracker = AllocationTracker().allocated(
        "intel.com/vf", [HIDDEN.id], 1.0, {HIDDEN.id: member.selectors}
    )
    told = confirmed(tracker, {HIDDEN.id: POD}, asked_at=2.0)
    for held_now in (tracker.held, told.held):
        (now,) = assign(host(PF0, VFS[0], HIDDEN, VFS[2]), config(file), held_now).pools
        assert now.by_id[HIDDEN.id].selector_object == 0
    assert confirmed(told, {}, asked_at=500.0).chosen == {}


def test_an_edited_selector_object_is_chosen_anew_for_a_held_device() -> None:
    file = pool("vf", {"vendors": ["8086"], "isRdma": True})
    member = assigned(host(PF0, *VFS), file).pools[0].by_id[VFS[1].id]
    tracker = AllocationTracker().allocated(
        "intel.com/vf", [VFS[1].id], 1.0, {VFS[1].id: member.selectors}
    )
    edited = config(pool("vf", {"vendors": ["15b3"]}, {"vendors": ["8086"]}))
    assert assign(host(PF0, *VFS), edited, tracker.held).pools[0].members[1].selector_object == 1


def test_hidden_facts_speak_against_no_selector_object() -> None:
    objects = ({"vendors": ["15b3"]}, {"linkTypes": ["ether"], "pKeys": ["0x1"], "isRdma": True})
    pools = assigned(host(PF0, HIDDEN), pool("vf", *objects), held=held("vf", HIDDEN))
    assert pools.pools[0].by_id[HIDDEN.id].selector_object == 1


def test_a_held_device_that_its_selectors_match_again_is_listed_once() -> None:
    pools = assigned(host(PF0, *VFS), pool("vf", {"pfNames": ["pf0#1"]}), held=held("vf", VFS[1]))
    assert members(pools) == {"vf": [VFS[1].id]}


def test_the_not_taken_step_of_the_funnel_counts_a_pools_own_held_devices() -> None:
    pools = assigned(host(PF0, *VFS), pool("vf"), held=held("vf", VFS[1]))
    assert [(s.step, s.remaining) for s in pools.pools[0].funnel][-1] == ("not taken", 3)


def test_a_sub_function_that_disappeared_is_still_known_as_one() -> None:
    sub = unknown_device("mlx5_core.sf.4", AUX_NET_DEVICE)
    assert (sub.role, sub.pci_address) == (Role.SF, "")
    uplink = pf("0000:d8:00.0", "mlx0")
    pools = assigned(
        host(uplink, sf(uplink, 3, 2)),
        pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice"),
        held=held("sf", "mlx5_core.sf.4"),
    )
    assert members(pools) == {"sf": ["mlx5_core.sf.2", "mlx5_core.sf.4"]}


def test_after_a_restart_a_pool_has_its_full_size_while_pods_hide_netdev_and_rdma() -> None:
    hidden = [attrs.evolve(v, netdevs=(), rdma=()) for v in VFS[:2]]
    pools = config(pool("vf", {"linkTypes": ["ether"], "isRdma": True}))
    tracker = confirmed(AllocationTracker(), {v.id: POD for v in hidden}, asked_at=0.0)
    told = assign(host(PF0, *hidden, VFS[2]), pools, tracker.held)
    assert members(told) == {"vf": [v.id for v in VFS]}


def test_a_holder_is_shown_as_a_pod_or_as_one_that_is_being_started() -> None:
    assert str(POD) == "pod default/pod"
    assert str(PodOwner("intel.com/vf")) == "a pod that is being started"


def test_an_allocation_counts_as_held_until_kubelet_reports_otherwise() -> None:
    tracker = AllocationTracker().allocated("intel.com/vf", ["a", "b"], now=100.0)
    assert tracker.held.holders == dict.fromkeys("ab", PodOwner("intel.com/vf"))
    soon = confirmed(tracker, {"a": POD}, asked_at=100.1)
    assert soon.held.holders == {"a": POD, "b": PodOwner("intel.com/vf")}
    late = confirmed(soon, {"a": POD}, asked_at=100.0 + CONFIRM_WITHIN_S)
    assert late.held.holders == {"a": POD}
    assert confirmed(late, {}, asked_at=500.0).held == AllocatedDevices(complete=True)


def test_allocated_devices_are_complete_once_kubelet_has_reported_anything() -> None:
    tracker = AllocationTracker().allocated("intel.com/vf", ["a"], now=1.0).remembering(VFS)
    assert not tracker.held.complete
    assert confirmed(tracker, {}, asked_at=2.0).allocated("intel.com/vf", ["b"], 3.0).held.complete


def test_kubelets_report_replaces_our_own_allocation() -> None:
    elsewhere = attrs.evolve(POD, resource="intel.com/other")
    tracker = AllocationTracker(reported={"a": elsewhere}).allocated("intel.com/vf", ["a"], now=1.0)
    assert tracker.held.holders == {"a": elsewhere}


def test_facts_are_kept_for_held_devices_only_and_dropped_when_they_are_freed() -> None:
    tracker = AllocationTracker(reported={VFS[1].id: POD}).remembering(VFS)
    assert tracker.held.remembered == {VFS[1].id: VFS[1]}
    assert tracker.remembering(()) == tracker
    assert confirmed(tracker, {}, asked_at=1.0).remembered == {}
    assert confirmed(tracker, {VFS[1].id: POD}, asked_at=1.0).remembered == {VFS[1].id: VFS[1]}


def test_the_newest_facts_of_a_held_device_are_kept() -> None:
    tracker = (
        AllocationTracker(reported={VFS[1].id: POD}).remembering([VFS[1]]).remembering([HIDDEN])
    )
    assert tracker.held.fact_of(HIDDEN.id, NET_DEVICE) == HIDDEN


def test_a_selector_object_that_certainly_matches_comes_before_one_that_may_match() -> None:
    objects = ({"vendors": ["8086"], "isRdma": True}, {"vendors": ["8086"], "pfNames": ["pf0"]})
    (only,) = assigned(host(PF0, HIDDEN), pool("vf", *objects), held=held("vf", HIDDEN)).pools
    assert [m.selector_object for m in only.members] == [1]


def test_our_own_allocation_counts_for_ten_seconds_even_if_kubelet_does_not_list_it() -> None:
    tracker = AllocationTracker(pending={VFS[0].id: Unconfirmed("intel.com/vf", 100.0)})
    assert confirmed(tracker, {}, asked_at=109.9).held_ids == {VFS[0].id}
    assert confirmed(tracker, {}, asked_at=110.0).held_ids == set()

"""The ledger as it listens to several witnesses: none of them alone makes a held device free."""

from __future__ import annotations

import attrs
import pytest

from agent.kubelet.checkpoint import Claim
from agent.model.device import Netdev, RdmaDevice
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.allocation_tracker import (
    CHECKPOINT_WITHIN_S,
    CONFIRM_WITHIN_S,
    REST_S,
    SHORT_LIFE_S,
    AllocationTracker,
    KubeletReport,
)
from agent.pools.assign import assign
from agent.pools.reasons import reason
from tests.support.devices import host, pf, vf
from tests.support.pools import config, members, pool

VF, OTHER = "intel.com/vf", "intel.com/other"
A, B = "0000:3b:02.0", "0000:3b:02.1"
POD = PodOwner(VF, "pod", "default", "main")
CLAIM = Claim(VF, A, "uid-1")
CLAIMED = PodOwner(VF, uid="uid-1")
SILENCE = KubeletReport()
PARTIAL = KubeletReport({})
COMPLETE = KubeletReport({}, is_complete=True)
UNCLAIMED = KubeletReport(claims=frozenset())


def claims(*found: Claim) -> KubeletReport:
    return KubeletReport(claims=frozenset(found))


LISTED = AllocationTracker().heard(KubeletReport({A: POD}, is_complete=True), 0.0)
BY_CHECKPOINT = AllocationTracker().heard(claims(CLAIM), 0.0)
RECORDED = AllocationTracker().recorded({A: VF})
GIVEN = AllocationTracker().allocated(VF, [A], 0.0)


@pytest.mark.parametrize(
    ("tracker", "holder"),
    [(LISTED, POD), (BY_CHECKPOINT, CLAIMED), (RECORDED, PodOwner(VF)), (GIVEN, PodOwner(VF))],
    ids=["pod-resources", "checkpoint", "record", "answer"],
)
def test_each_source_alone_keeps_a_device_held_until_kubelets_answer_is_complete(
    tracker: AllocationTracker, holder: PodOwner
) -> None:
    assert tracker.held.holders == {A: holder}
    for word in (SILENCE, PARTIAL, SILENCE):
        tracker = tracker.heard(word, 1000.0)
        assert tracker.held.holders == {A: holder}
    assert tracker.heard(COMPLETE, 1000.0).held.holders == {}


@pytest.mark.parametrize("tracker", [LISTED, BY_CHECKPOINT, RECORDED, GIVEN])
@pytest.mark.parametrize("word", [UNCLAIMED, KubeletReport({}, claims=frozenset())])
def test_a_checkpoint_without_a_device_frees_it(
    tracker: AllocationTracker, word: KubeletReport
) -> None:
    assert tracker.heard(word, 1000.0).held == AllocatedDevices(complete=True)


def test_a_device_in_pod_resources_is_held_even_if_the_checkpoint_lacks_it() -> None:
    for is_complete in (False, True):
        word = KubeletReport({A: POD}, is_complete=is_complete, claims=frozenset())
        assert LISTED.heard(word, 1000.0).held.holders == {A: POD}


def test_a_new_allocation_is_free_only_after_either_source_could_have_reported_it() -> None:
    for word, within_s in ((COMPLETE, CONFIRM_WITHIN_S), (UNCLAIMED, CHECKPOINT_WITHIN_S)):
        assert GIVEN.heard(word, within_s - 1).held_ids == {A}
        assert GIVEN.heard(word, within_s).held_ids == set()


def test_an_old_claim_that_was_refuted_does_not_come_back_and_a_new_one_counts() -> None:
    """Kubelet does not write its checkpoint when a pod ends."""
    word = KubeletReport({}, is_complete=True, claims=frozenset({CLAIM}))
    tracker = BY_CHECKPOINT.heard(word, 1.0)
    assert tracker.held_ids == set()
    for later in (claims(CLAIM), SILENCE, KubeletReport({}, claims=frozenset({CLAIM}))):
        assert tracker.heard(later, 2.0).held_ids == set()
    new = Claim(VF, A, "uid-2")
    assert tracker.heard(claims(CLAIM, new), 3.0).held.holders == {A: PodOwner(VF, uid="uid-2")}
    assert tracker.heard(claims(), 3.0).heard(claims(CLAIM), 4.0).held_ids == {A}


def test_a_checkpoint_that_becomes_unreadable_frees_no_device() -> None:
    assert BY_CHECKPOINT.heard(SILENCE, 1000.0).held_ids == {A}


def test_a_device_that_was_allocated_twice_has_one_holder_in_any_order() -> None:
    twice = (CLAIM, Claim(OTHER, A, "uid-0"))
    for found in (twice, twice[::-1]):
        held = AllocationTracker().heard(claims(*found), 0.0).held
        assert held.holders == {A: PodOwner(OTHER, uid="uid-0")}


def test_the_holders_are_complete_with_either_certain_source() -> None:
    assert not AllocationTracker().heard(SILENCE, 0.0).complete
    assert not AllocationTracker().heard(PARTIAL, 0.0).complete
    assert AllocationTracker().heard(UNCLAIMED, 0.0).complete
    assert AllocationTracker().heard(COMPLETE, 0.0).complete
    waiting = attrs.evolve(AllocationTracker(), awaited=True)
    assert waiting.heard(PARTIAL, 0.0).held == AllocatedDevices(awaited=True)
    assert waiting.heard(COMPLETE, 0.0).held == AllocatedDevices(complete=True)


def test_a_device_that_is_freed_soon_after_its_allocation_rests_for_a_while() -> None:
    early = GIVEN.heard(KubeletReport({A: POD}, is_complete=True), 2.0).heard(
        COMPLETE, SHORT_LIFE_S - 1
    )
    assert early.resting == {A: SHORT_LIFE_S - 1 + REST_S}
    assert early.heard(COMPLETE, SHORT_LIFE_S - 1 + REST_S).resting == {}
    late = GIVEN.heard(KubeletReport({A: POD}, is_complete=True), 2.0).heard(COMPLETE, SHORT_LIFE_S)
    assert late.resting == {}
    never_listed = GIVEN.heard(COMPLETE, 31.0)
    assert never_listed.resting == {A: 31.0 + REST_S}


def test_a_device_that_was_refused_rests_too() -> None:
    assert AllocationTracker().returned([A, B], 5.0).resting == {A: 5.0 + REST_S, B: 5.0 + REST_S}


def test_a_device_of_an_earlier_run_does_not_rest_when_it_is_freed() -> None:
    assert RECORDED.heard(COMPLETE, 1.0).resting == {}


PF0 = pf("0000:3b:00.0", "pf0", num_vfs=3)
SOUND = vf(B, PF0, 1, driver="mlx5_core", netdevs=(Netdev("v1"),), rdma=(RdmaDevice("mlx5_1"),))
HIDDEN = vf(A, PF0, 0, driver="mlx5_core")
POOLS = config(pool("rdma", {"isRdma": True}), pool("any", {}))


def test_while_holders_are_unknown_a_function_that_may_be_in_a_pod_joins_no_later_pool() -> None:
    """Its netdev is not here, and the RDMA device that the first pool asks for may be with it."""
    pools = assign(host(PF0, SOUND, HIDDEN), POOLS, AllocatedDevices(awaited=True))
    assert members(pools) == {"rdma": [B], "any": []}
    assert "once kubelet has reported which devices pods hold" in reason(HIDDEN, pools).text
    for held in (AllocatedDevices(), AllocatedDevices(complete=True)):
        pools = assign(host(PF0, SOUND, HIDDEN), POOLS, held)
        assert members(pools) == {"rdma": [B], "any": [A]}


@pytest.mark.parametrize(
    "device",
    [
        attrs.evolve(HIDDEN, driver="vfio-pci", iommu_group=7),
        attrs.evolve(HIDDEN, netdevs=(Netdev("v0"),)),
        attrs.evolve(HIDDEN, driver="iavf", vendor="8086"),
    ],
    ids=["of userspace", "with its netdev", "of another vendor"],
)
def test_devices_whose_facts_are_not_hidden_join_at_once(device: object) -> None:
    assert isinstance(device, type(HIDDEN))
    wanted = config(pool("rdma", {"isRdma": True, "vendors": ["15b3"]}), pool("any", {}))
    sound = attrs.evolve(SOUND, vendor="15b3")
    other = device if device.vendor == "8086" else attrs.evolve(device, vendor="15b3")
    pools = assign(host(PF0, sound, other), wanted, AllocatedDevices(awaited=True))
    assert members(pools) == {"rdma": [B], "any": [A]}


def test_a_holder_from_the_checkpoint_is_shown_by_the_uid_of_its_pod() -> None:
    assert str(CLAIMED) == "the pod with the UID uid-1 (from kubelet's checkpoint)"

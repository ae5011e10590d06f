"""Every act alone, from a good state: what is to come right soon does, whatever the act's number.

The machine of test_lifecycle looks for what only several acts together bring about; here nothing
is left to chance. One node lives through all numbers of an act, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path

import pytest

from tests.model import acts, truth
from tests.model.kubelet import DEEDS, STAGES
from tests.model.test_lifecycle import MOMENTS, TOLD_S, Lifecycle

KINDS = pytest.mark.parametrize(
    ("is_watched", "sweeps"),
    [(False, True), (False, False), (True, True)],
    ids=["swept", "unswept", "watched"],
)
BOTH = acts.GOOD[1]
NUMBERS = range(6)


@contextmanager
def life(
    *, is_watched: bool = False, sweeps: bool = True, config: bytes = BOTH, is_map: bool = False
) -> Iterator[Lifecycle]:
    """A node with an agent that kubelet knows, checked in every way at its end."""
    found = Lifecycle()
    found.begin(
        has_registry=is_watched,
        sweeps=sweeps,
        config=config,
        is_config_map=is_map,
        is_registered=True,
    )
    try:
        yield found
    except BaseException:
        found.node.close()
        raise
    found.teardown()


@KINDS
@pytest.mark.parametrize("fault", acts.FAULTS)
def test_each_fault_is_repaired_soon(*, is_watched: bool, sweeps: bool, fault: str) -> None:
    with life(is_watched=is_watched, sweeps=sweeps) as found:
        for number, pause in zip(NUMBERS, cycle(MOMENTS), strict=False):
            found.one_fault_is_put_right_soon(fault, number, pause)


@pytest.mark.parametrize("is_watched", [False, True], ids=["legacy", "watched"])
def test_a_stream_of_an_earlier_kubelet_does_not_count_as_one_of_the_present_kubelet(
    *, is_watched: bool
) -> None:
    with life(is_watched=is_watched) as found:
        found.act([("kubelet opens no streams", 0, 0), ("kubelet is replaced", 0, 10)])
        found.settle()


@pytest.mark.parametrize("is_watched", [False, True], ids=["legacy", "watched"])
def test_a_file_that_replaced_a_socket_is_not_removed(*, is_watched: bool) -> None:
    with life(is_watched=is_watched) as found:
        names = [Path(socket) for socket in found.node.sockets()]
        found.act([("a socket is replaced", number, 1.5) for number in range(len(names))])
        found.settle()
        assert all(path.is_file() for path in names)
        assert len(found.node.sockets()) == len(names)


@KINDS
def test_a_kubelet_that_returns_gets_the_resources_soon(*, is_watched: bool, sweeps: bool) -> None:
    with life(is_watched=is_watched, sweeps=sweeps) as found:
        for away, is_replaced in product((None, 0.01, 0.3, 7.0, 12.0, 33.0), (False, True)):
            found.a_fresh_kubelet_is_told_soon(away, is_replaced=is_replaced)


@KINDS
@pytest.mark.parametrize("is_replaced", [False, True], ids=["killed", "replaced"])
def test_a_kubelet_that_starts_during_a_registration_gets_the_resources_soon(
    *, is_watched: bool, sweeps: bool, is_replaced: bool
) -> None:
    with life(is_watched=is_watched, sweeps=sweeps) as found:
        cases = product(STAGES, DEEDS, acts.REGISTERING)
        for (stage, deed, cause), pause in zip(cases, cycle(MOMENTS), strict=False):
            found.a_fresh_kubelet_comes_in_the_middle_of_registering(
                stage, deed, cause, 0, pause, is_replaced=is_replaced
            )


@pytest.mark.parametrize("config", acts.GOOD[1:6:2], ids=["two", "one", "held back"])
@pytest.mark.parametrize("act", acts.OF_HOST)
def test_each_change_of_the_host_is_reported_soon(config: bytes, act: str) -> None:
    with life(config=config) as found:
        for number in (*range(8), *range(7, 0, -2)):
            found.act([(act, number, TOLD_S)])
            truth.check_all(found.node)


def test_a_folder_that_is_created_late_is_watched_too() -> None:
    """A PF and VFs that were not there when the agent began to follow the host."""
    changes = ("a vf changes its driver", "a carrier changes")
    with life() as found:
        found.act([("vfs come or go", 7, TOLD_S)])
        for act, number in product(changes, range(15, -1, -1)):
            found.act([(act, number, TOLD_S)])
            truth.check_all(found.node)


def test_a_second_kubelet_at_the_same_sockets_gets_the_newest_lists() -> None:
    with life(is_watched=True) as found:
        for number in range(6):
            found.a_fresh_kubelet_is_told_soon(None, is_replaced=True)
            found.act([("a carrier changes", number, TOLD_S)])
            truth.check_all(found.node)


@pytest.mark.parametrize("is_map", [False, True], ids=["file", "map"])
@pytest.mark.parametrize("in_a_new_folder", [False, True], ids=["edited", "anew"])
def test_each_edit_is_loaded_soon(*, is_map: bool, in_a_new_folder: bool) -> None:
    with life(is_map=is_map) as found:
        for after in (*acts.GOOD, *acts.BAD):
            found.an_edit_is_in_force_soon(BOTH, in_a_new_folder=False)
            found.an_edit_is_in_force_soon(after, in_a_new_folder=in_a_new_folder)
        found.an_edit_is_in_force_soon(BOTH, in_a_new_folder=False)


@pytest.mark.parametrize("is_watched", [False, True], ids=["legacy", "watched"])
def test_the_agent_survives_faults_of_kubelet(*, is_watched: bool) -> None:
    with life(is_watched=is_watched) as found:
        for mood, cause in product(acts.MOODS, acts.REGISTERING):
            found.act([(mood, 4, 0), (cause, 0, 300.0)])
            found.settle()


@pytest.mark.parametrize("is_watched", [False, True], ids=["legacy", "watched"])
def test_a_refusal_is_not_treated_as_a_registration(*, is_watched: bool) -> None:
    with life(is_watched=is_watched) as found:
        found.act([("kubelet refuses", 4, 0), ("kubelet starts", 0, 2.5)])
        assert not any(server.registered_by for server in truth.servers_of(found.node))


def test_held_devices_stay_and_are_listed_correctly() -> None:
    """Given to pods, then gone, back, with another driver, and freed, once kubelet says so."""
    with life() as found:
        for act, number in product(("vfs come or go", "a vf changes its driver"), range(6)):
            found.act([("a pod starts", number, 0.3), ("a pod starts", 0, 12.0)])
            truth.check_all(found.node)
            found.act([(act, number, TOLD_S)])
            truth.check_all(found.node)
            truth.check_answers(found.node)
            found.act([("kubelet dies", 0, 40.0), ("kubelet starts", 0, 0.5)])
            truth.check_pods(found.node)
            found.node.wait(12.0)
            truth.check_all(found.node)
            found.act([("a pod ends", number, 0), ("vfs come or go", 6, 0)])
            found.settle()
        found.everything_settles(are_pools_taken_away=True)


def test_a_device_that_disappears_right_after_its_allocation_is_reported_as_gone() -> None:
    """Before kubelet can have told of the pod."""
    with life() as found:
        for number in range(2):
            found.act([("a pod starts", number, 0.05), ("vfs come or go", 0, 0.5)])
            truth.check_view(found.node)
            truth.check_pods(found.node)
            found.act([("a pod ends", 0, 0), ("vfs come or go", 4, 0)])
            found.settle()


def test_an_allocated_device_keeps_its_cdi_entry_until_kubelet_reports_no_pod() -> None:
    """Though its pool has gone from the configuration."""
    with life() as found:
        truth.check_answers(found.node)
        named = truth.named_by_cdi(found.node)
        assert named
        found.an_edit_is_in_force_soon(acts.NO_POOLS, in_a_new_folder=False)
        assert truth.named_by_cdi(found.node) == named
        found.settle()
        assert truth.named_by_cdi(found.node) == set()


def test_a_device_that_has_just_disappeared_is_not_allocated() -> None:
    """Before kubelet can have been told."""
    with life() as found:
        for number in range(3):
            found.act([("vfs come or go", 0, 0), ("a pod starts", number, TOLD_S)])
            assert not found.node.pods.claims
            found.act([("vfs come or go", 4, TOLD_S)])


def test_a_pod_that_fails_before_it_runs_does_not_hold_devices_for_long() -> None:
    with life() as found:
        for number in range(3):
            found.act([("a pod dies before it runs", number, 0.0), ("vfs come or go", 0, 0.3)])
            found.settle()
            found.act([("vfs come or go", 4, TOLD_S)])


def test_a_restarted_agent_knows_the_devices_that_pods_hold() -> None:
    with life() as found:
        found.act([("a pod starts", 0, 12.0), ("a pf goes", 0, TOLD_S)])
        found.act([("the agent is restarted", 0, TOLD_S)])
        truth.check_all(found.node)
        found.act([("kubelet dies", 0, 1.5), ("the agent is restarted", 0, TOLD_S)])
        found.settle()


WITNESSES = ("the checkpoint", "the own record", "both")


def take_away_a_witness(found: Lifecycle, left: str) -> None:
    """Leave only what is named; both is as it always is."""
    roots = found.node.roots
    if left == "the own record":
        roots.kubelet_checkpoint.unlink()
    if left == "the checkpoint":
        for path in roots.device_info.glob(".sriov-agent-given-*"):
            path.unlink()


@pytest.mark.parametrize("left", WITNESSES)
@pytest.mark.parametrize("agent_too", [False, True], ids=["kubelet", "both"])
def test_no_device_is_allocated_twice_while_kubelet_does_not_know_its_pods(
    left: str, *, agent_too: bool
) -> None:
    """A held VF gets the driver that another pool selects, while kubelet starts anew."""
    with life() as found:
        found.act([("a pod starts", 1, 12.0)])
        (held,) = found.node.pods.held
        resource = found.node.pods.held[held]
        take_away_a_witness(found, left)
        found.act([("kubelet hears late of its pods", 1, 0), ("kubelet starts", 0, 0)])
        if agent_too:
            found.act([("the agent is restarted", 0, 0)])
        driver = "vfio-pci" if resource.endswith("net") else "iavf"
        found.node.host.set_driver(held, driver)
        for _ in range(6):
            found.node.wait(2.0)
            found.act([("a pod starts", number, 0) for number in range(4)])
            truth.check_pods(found.node)
        found.settle()


def test_a_device_is_free_after_a_complete_answer_even_if_the_checkpoint_is_older() -> None:
    """Kubelet does not write it when a pod ends."""
    with life() as found:
        found.act([("a pod starts", 0, 12.0)])
        (held,) = found.node.pods.held
        found.act([("a pod ends", 0, 40.0)])
        assert held in found.node.roots.kubelet_checkpoint.read_text()
        assert held not in found.node.daemon.pool_state.tracker.held_ids
        assert not list(found.node.roots.device_info.glob(".sriov-agent-given-*"))

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.schema import AllocationPolicy
from agent.model.device import Device
from agent.pools.pool import Pool
from agent.pools.preference import prefer
from tests.support.devices import host, pf, vf
from tests.support.pools import one_pool

DEFAULT, PACKED, SPREAD, NUMA = AllocationPolicy


def functions(bus: int, count: int, numa: int | None = None) -> list[Device]:
    """A PF and its VFs, which are called ``<bus>v<index>`` in these tests."""
    parent = pf(f"0000:{bus:02x}:00.0", f"pf{bus}", num_vfs=count)
    vfs = [vf(f"0000:{bus:02x}:02.{i}", parent, i, numa_node=numa) for i in range(count)]
    return [parent, *vfs]


def node(*counts: int, numa: tuple[int | None, ...] = ()) -> Pool:
    """A pool of all VFs of PFs on bus 0, 1 ... with so many VFs each."""
    nodes = numa or (None,) * len(counts)
    return one_pool(
        host(*(d for bus, n in enumerate(counts) for d in functions(bus, n, nodes[bus])))
    )


def ids(*names: str) -> tuple[str, ...]:
    return tuple(f"0000:{int(n[0]):02x}:02.{n[2]}" for n in names)


def all_of(pool: Pool) -> tuple[str, ...]:
    return tuple(m.device.id for m in pool.members)


def test_without_a_policy_the_lowest_pf_and_index_come_first() -> None:
    pool = node(3, 3)
    assert prefer(pool, all_of(pool)[::-1], (), 4) == ids("0v0", "0v1", "0v2", "1v0")


def test_packed_takes_the_first_pf_with_enough_devices() -> None:
    pool = node(2, 4, 3)
    assert prefer(pool, all_of(pool), (), 3, PACKED) == ids("1v0", "1v1", "1v2")


def test_packed_takes_the_largest_pfs_if_no_single_one_is_enough() -> None:
    pool = node(2, 4, 3)
    assert prefer(pool, all_of(pool), (), 6, PACKED) == ids(
        "0v0", "0v1", "1v0", "1v1", "1v2", "1v3"
    )


def test_packed_fills_the_pf_of_a_required_device() -> None:
    pool = node(4, 4)
    assert prefer(pool, all_of(pool), ids("1v3"), 3, PACKED) == ids("1v0", "1v1", "1v3")


def test_spread_takes_one_per_pf_in_turn() -> None:
    pool = node(3, 3, 3)
    assert prefer(pool, all_of(pool), (), 4, SPREAD) == ids("0v0", "0v1", "1v0", "2v0")


def test_spread_counts_what_must_be_included() -> None:
    pool = node(3, 3)
    assert prefer(pool, all_of(pool), ids("0v2"), 2, SPREAD) == ids("0v2", "1v0")


def test_spread_takes_the_pf_that_serves_the_fewest_pods_first() -> None:
    pool = node(4, 4, 4)
    held = frozenset(ids("0v0", "0v1", "1v0"))
    free = tuple(i for i in all_of(pool) if i not in held)
    assert prefer(pool, free, (), 1, SPREAD, held) == ids("2v0")
    assert prefer(pool, free, (), 2, SPREAD, held) == ids("1v1", "2v0")


def test_spread_takes_one_of_every_pf_before_load_decides_again() -> None:
    pool = node(4, 4)
    held = frozenset(ids("0v0", "0v1", "0v2"))
    free = tuple(i for i in all_of(pool) if i not in held)
    assert prefer(pool, free, (), 2, SPREAD, held) == ids("0v3", "1v0")


def test_spread_continues_with_the_pfs_that_still_have_devices() -> None:
    pool = node(1, 4)
    assert prefer(pool, all_of(pool), (), 4, SPREAD) == ids("0v0", "1v0", "1v1", "1v2")


def test_functions_without_a_pf_here_each_follow_their_own_link() -> None:
    pool = one_pool(host(*(vf(f"0000:0{n}:02.0", None) for n in range(3))))
    assert prefer(pool, all_of(pool), (), 2, SPREAD) == ids("0v0", "1v0")


def test_numa_takes_the_first_node_with_enough_devices() -> None:
    pool = node(2, 3, 3, numa=(0, 1, 0))
    assert prefer(pool, all_of(pool), (), 3, NUMA) == ids("0v0", "0v1", "2v0")
    assert prefer(pool, all_of(pool), (), 5, NUMA) == ids("0v0", "0v1", "2v0", "2v1", "2v2")


def test_numa_takes_the_largest_aligned_group_first_if_none_is_enough() -> None:
    pool = node(2, 3, numa=(0, 1))
    assert prefer(pool, all_of(pool), (), 4, NUMA) == ids("0v0", "1v0", "1v1", "1v2")


def test_numa_stays_on_the_node_of_a_required_device() -> None:
    pool = node(3, 3, numa=(0, 1))
    assert prefer(pool, all_of(pool), ids("1v2"), 2, NUMA) == ids("1v0", "1v2")


def test_numa_takes_devices_of_unknown_nodes_only_if_known_ones_are_not_enough() -> None:
    pool = node(3, 2, numa=(None, 0))
    assert prefer(pool, all_of(pool), (), 2, NUMA) == ids("1v0", "1v1")
    assert prefer(pool, all_of(pool), (), 3, NUMA) == ids("0v0", "0v1", "0v2")


def test_numa_takes_the_lowest_devices_if_no_node_is_known() -> None:
    pool = node(2, 2)
    assert prefer(pool, all_of(pool), (), 3, NUMA) == ids("0v0", "0v1", "1v0")


def test_ids_that_are_not_in_the_pool_are_ignored() -> None:
    pool = node(2)
    odd = ("0000:ff:00.0", "", "mlx5_core.sf.1")
    assert prefer(pool, (*odd, *all_of(pool)), odd, 2) == ids("0v0", "0v1")


@pytest.mark.parametrize("policy", AllocationPolicy)
def test_without_available_devices_the_answer_has_the_required_ones(
    policy: AllocationPolicy,
) -> None:
    pool = node(2)
    assert prefer(pool, (), ids("0v1"), 2, policy) == ids("0v1")
    assert prefer(pool, (), (), 2, policy) == ()


@pytest.mark.parametrize("policy", AllocationPolicy)
@pytest.mark.parametrize("size", [-1, 0, 1])
def test_required_devices_are_never_left_out(policy: AllocationPolicy, size: int) -> None:
    pool = node(2, 2)
    must = ids("0v1", "1v1")
    assert prefer(pool, all_of(pool), must, size, policy) == must


def test_the_answer_does_not_depend_on_the_order_of_the_request() -> None:
    pool = node(2, 2, numa=(0, 1))
    for policy in AllocationPolicy:
        answers = {prefer(pool, order, (), 3, policy) for order in permutations(all_of(pool))}
        assert len(answers) == 1


POOL = node(3, 1, 4, 2, numa=(0, 1, None, 0))
SOME = st.lists(st.sampled_from([*all_of(POOL), "0000:ff:00.0"]), max_size=12)


@given(SOME, SOME, st.integers(-2, 12), st.sampled_from(list(AllocationPolicy)), SOME)
def test_any_request_gets_the_requested_size_if_possible_and_no_device_twice(
    available: list[str], must: list[str], size: int, policy: AllocationPolicy, held: list[str]
) -> None:
    answer = prefer(POOL, available, must, size, policy, frozenset(held))
    needed = {i for i in must if i in POOL.by_id}
    usable = {i for i in available if i in POOL.by_id} | needed
    assert len(answer) == len(set(answer))
    assert needed <= set(answer) <= usable
    assert len(answer) == max(len(needed), min(size, len(usable)))


@given(SOME, SOME, st.integers(1, 8))
def test_packed_and_numa_use_the_smallest_possible_number_of_groups(
    available: list[str], must: list[str], size: int
) -> None:
    for policy, group in ((PACKED, "pf_address"), (NUMA, "numa_node")):
        answer = prefer(POOL, available, must, size, policy)
        used = {getattr(POOL.by_id[i].device, group) for i in answer}
        assert len(used) == fewest_groups(available, must, size, group)


def fewest_groups(available: list[str], must: list[str], size: int, group: str) -> int:
    """By trying the groups with the most devices first, after those that must be touched."""
    needed = {i for i in must if i in POOL.by_id}
    counts: dict[object, int] = {}
    for device_id in {i for i in available if i in POOL.by_id} - needed:
        key = getattr(POOL.by_id[device_id].device, group)
        counts[key] = counts.get(key, 0) + 1
    touched = {getattr(POOL.by_id[i].device, group) for i in needed}
    missing = size - len(needed) - sum(counts.pop(key, 0) for key in touched)
    number = len(touched)
    for count in sorted(counts.values(), reverse=True):
        if missing <= 0:
            break
        missing, number = missing - count, number + 1
    return number


@pytest.mark.parametrize("policy", list(AllocationPolicy))
def test_devices_to_be_allocated_last_are_chosen_if_the_others_are_not_enough(
    policy: AllocationPolicy,
) -> None:
    pool = node(3, 3)
    late = dict(zip(ids("0v0", "0v1", "0v2", "1v0"), (2, 1, 2, 1), strict=True))
    free = all_of(pool)
    assert prefer(pool, free, (), 2, policy, last=late) == ids("1v1", "1v2")
    assert prefer(pool, free, (), 4, policy, last=late) == ids("0v1", "1v0", "1v1", "1v2")
    assert prefer(pool, free, ids("0v0"), 2, policy, last=late)[0] == ids("0v0")[0]
    assert len(prefer(pool, free, (), 6, policy, last=late)) == 6


def test_the_policy_decides_among_devices_of_the_same_rank() -> None:
    pool = node(2, 3)
    late = dict.fromkeys(all_of(pool), 1)
    assert prefer(pool, all_of(pool), (), 3, PACKED, last=late) == ids("1v0", "1v1", "1v2")
    assert prefer(pool, all_of(pool), (), 2, SPREAD, last=late) == ids("0v0", "1v0")

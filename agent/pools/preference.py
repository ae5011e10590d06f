"""Which devices kubelet should take: the answer to GetPreferredAllocation, by allocation policy.

Kubelet treats the answer as a set and fills up missing devices at random. An error would fail the
pod, so an odd request gets the best possible answer. All choices are deterministic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from agent.config.schema import AllocationPolicy
from agent.pools.order import device_order
from agent.pools.pool import Member, Pool


def prefer(
    pool: Pool,
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    policy: AllocationPolicy = AllocationPolicy.DEFAULT,
    held: frozenset[str] = frozenset(),
    *,
    last: Mapping[str, int] | None = None,
) -> tuple[str, ...]:
    """At most ``size`` device ids: all of ``must_include``, then the policy's choice, in order.

    Only devices that are ``available`` and in the pool are chosen, none twice; there may be fewer
    than requested. ``held`` are the pool's devices that pods hold; ``spread`` prefers PFs with
    fewer of them. Devices in ``last`` are chosen only if the others are not enough, those with
    the lowest number first.
    """
    must = [pool.by_id[i] for i in dict.fromkeys(must_include) if i in pool.by_id]
    taken = {m.device.id for m in must}
    free = {i for i in available if i in pool.by_id and i not in taken}
    rest = [m for m in pool.members if m.device.id in free]
    wanted = max(0, size - len(must))
    load, late = _load(pool, held), last or {}
    chosen = must
    for tier in sorted({late.get(m.device.id, 0) for m in rest}):
        members = [m for m in rest if late.get(m.device.id, 0) == tier]
        left = wanted + len(must) - len(chosen)
        chosen = chosen + _POLICIES[policy](members, chosen, left, load)
    return tuple(m.device.id for m in sorted(chosen, key=lambda m: device_order(m.device)))


_Group = str | int | None
"""A PF's address or a NUMA node; None = not known."""
_Load = Mapping[_Group, int]


def _load(pool: Pool, held: frozenset[str]) -> _Load:
    """PF -> how many of the pool's devices on it pods hold."""
    load: defaultdict[_Group, int] = defaultdict(int)
    for device_id in held & pool.by_id.keys():
        load[_pf(pool.by_id[device_id])] += 1
    return load


def _pf(member: Member) -> _Group:
    return member.device.pf_address or member.device.pci_address


def _node(member: Member) -> _Group:
    return member.device.numa_node


def _lowest(rest: list[Member], _must: list[Member], wanted: int, _load: _Load) -> list[Member]:
    return rest[:wanted]


def _packed(rest: list[Member], must: list[Member], wanted: int, _load: _Load) -> list[Member]:
    return _fewest_groups(rest, must, wanted, _pf)


def _numa(rest: list[Member], must: list[Member], wanted: int, _load: _Load) -> list[Member]:
    return _fewest_groups(rest, must, wanted, _node)


def _spread(rest: list[Member], must: list[Member], wanted: int, load: _Load) -> list[Member]:
    """One for each PF in turn, counting the required devices; PFs with the least load first."""
    groups = _grouped(rest, _pf)
    given: defaultdict[_Group, int] = defaultdict(int)
    for member in must:
        given[_pf(member)] += 1
    place = {pf: number for number, pf in enumerate(groups)}
    left = {pf: list(reversed(members)) for pf, members in groups.items()}
    chosen: list[Member] = []
    while len(chosen) < wanted and left:
        pf = min(left, key=lambda p: (given[p], load.get(p, 0), place[p]))
        chosen.append(left[pf].pop())
        given[pf] += 1
        if not left[pf]:
            del left[pf]
    return chosen


def _fewest_groups(
    rest: list[Member],
    must: list[Member],
    wanted: int,
    group_of: Callable[[Member], _Group],
) -> list[Member]:
    """Chooses from as few groups as possible.

    Groups of required devices come first, then the first group that has all missing devices; if
    none has, the largest group, and so on.
    """
    groups = _grouped(rest, group_of)
    touched = dict.fromkeys(group_of(m) for m in must)
    chosen: list[Member] = []
    for group in touched:
        chosen += groups.pop(group, [])[: wanted - len(chosen)]
    while len(chosen) < wanted and groups:
        missing = wanted - len(chosen)
        enough = (g for g, members in groups.items() if len(members) >= missing)
        largest = max(groups, key=lambda g: len(groups[g]))
        chosen += groups.pop(next(enough, largest))[:missing]
    return chosen


def _grouped(
    members: list[Member], group_of: Callable[[Member], _Group]
) -> dict[_Group, list[Member]]:
    """Members by group in the order of their first member; those of no known group come last."""
    groups: defaultdict[_Group, list[Member]] = defaultdict(list)
    for member in members:
        groups[group_of(member)].append(member)
    unknown = groups.pop(None, None)
    return {**groups, None: unknown} if unknown else dict(groups)


_POLICIES: Mapping[
    AllocationPolicy, Callable[[list[Member], list[Member], int, _Load], list[Member]]
] = {
    AllocationPolicy.DEFAULT: _lowest,
    AllocationPolicy.PACKED: _packed,
    AllocationPolicy.SPREAD: _spread,
    AllocationPolicy.NUMA: _numa,
}

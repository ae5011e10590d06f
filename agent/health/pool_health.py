"""A pool's health over time: what was judged, what is held back, what is told to kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from agent.attrs_classes import fast_record, frozen
from agent.health.assess import assess, faults
from agent.health.dampening import Dampening, dampen
from agent.health.link import carriers
from agent.health.verdict import HEALTHY, Health
from agent.model.answers import DeviceListing, ListedDevice
from agent.model.device import Netdev
from agent.model.link import LinkFact, Links
from agent.model.snapshot import Snapshot
from agent.pools.groups import with_held_mates
from agent.pools.pool import Pool, Pools


@fast_record
class Change:
    """One device whose told health changed; None = it was, or is, not in the pool."""

    device_id: str
    before: Health | None
    after: Health | None


@frozen(eq=False)
class HealthInputs:
    """What a pool was judged by; while all of it stays as it was, so does the outcome."""

    pool: Pool
    snapshot: Snapshot
    held: frozenset[str]
    held_mates: frozenset[str]
    """Members of which pods hold another function of the IOMMU group."""
    carriers: tuple[Netdev, ...]
    """The netdevs on which the members' links hang."""
    facts: tuple[LinkFact | None, ...]
    """Netlink's word on each of them."""
    unwritten: Mapping[str, Health]
    faults: Mapping[str, Health]
    """What is wrong with members whatever their links do."""

    def same_as(self, other: HealthInputs) -> bool:
        """Whether nothing changed: the large values are the very same objects."""
        return (
            self.pool is other.pool
            and self.snapshot is other.snapshot
            and self.facts == other.facts
            and self.held == other.held
            and self.held_mates == other.held_mates
            and self.unwritten == other.unwritten
        )


@frozen(slots=False)
class PoolHealth:
    """One pool's members with the health that kubelet is told."""

    pool: Pool
    state: Dampening = Dampening()
    inputs: HealthInputs | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def next_due(self) -> float | None:
        """Loop time at which held-back good news is due."""
        return self.state.next_due

    def is_current(self, inputs: HealthInputs) -> bool:
        """Whether it would come out the same again: nothing changed, and nothing is held back."""
        known = self.inputs
        return known is not None and self.next_due is None and known.same_as(inputs)

    def offer(self) -> DeviceListing:
        """The full list for kubelet."""
        return self._offer

    @cached_property
    def _offer(self) -> DeviceListing:
        told = self.state.told
        topology = not self.pool.config.exclude_topology
        devices = [m.device for m in self.pool.members]
        listed = [
            ListedDevice(d.id, told[d.id].healthy, d.numa_node if topology else None)
            for d in devices
        ]
        return DeviceListing(self.pool.resource, tuple(listed))


def assess_pool(
    before: PoolHealth | None,
    pool: Pool,
    pools: Pools,
    links: Links,
    now: float,
    unwritten: Mapping[str, Health],
) -> PoolHealth:
    """The outlook of ``pool`` at ``now``; ``unwritten`` overrides devices whose files failed.

    It is ``before`` itself where nothing changed that the pool hangs on: a cable of one PF costs
    the pools of the others nothing.
    """
    inputs = _inputs(before, pool, pools, links, unwritten)
    if before is not None and before.is_current(inputs):
        return before
    raw = {**assess(pool, pools, links, inputs.faults), **unwritten}
    state = before.state if before else Dampening()
    state = dampen(state, raw, now, pool.config.health.recovery_hold_s)
    return PoolHealth(pool, state, inputs)


def _inputs(
    before: PoolHealth | None,
    pool: Pool,
    pools: Pools,
    links: Links,
    unwritten: Mapping[str, Health],
) -> HealthInputs:
    """The grounds of now; which netdevs matter is worked out once for a pool and a snapshot."""
    known = before.inputs if before else None
    held, at_fault = pools.held.of(pool.resource), None
    held_mates = with_held_mates(pool.members, pools)
    if known is not None and known.pool is pool and known.snapshot is pools.snapshot:
        netdevs = known.carriers
        same_holders = known.held == held and known.held_mates == held_mates
        at_fault = known.faults if same_holders else None
    elif pool.config.health.link:
        netdevs = carriers((m.device for m in pool.members), pools.snapshot)
    else:
        netdevs = ()
    facts = tuple(map(links.fact, netdevs))
    if at_fault is None:
        at_fault = faults(pool, pools)
    return HealthInputs(pool, pools.snapshot, held, held_mates, netdevs, facts, unwritten, at_fault)


def changes(before: PoolHealth | None, after: PoolHealth | None) -> tuple[Change, ...]:
    """What was told differently from ``before`` to ``after``, in the order of the lists."""
    if before is after:
        return ()
    old = before.state.told if before else {}
    new = after.state.told if after else {}
    found = [
        Change(i, known, h)
        for i, h in new.items()
        if (known := old.get(i)) is not h and known != h  # mostly the same object, seldom its equal
    ]
    return (*found, *(Change(i, h, None) for i, h in old.items() if i not in new))


def grouped(found: tuple[Change, ...]) -> Mapping[tuple[str, Health], tuple[str, ...]]:
    """(``added``, ``removed``, ``unhealthy`` or ``healthy``; health) -> device ids, in order."""
    groups: dict[tuple[str, Health], list[str]] = {}
    for change in found:
        groups.setdefault(_group(change), []).append(change.device_id)
    return {key: tuple(ids) for key, ids in groups.items()}


def _group(change: Change) -> tuple[str, Health]:
    if change.after is None:
        return "removed", change.before or HEALTHY
    if change.before is None:
        return "added", change.after
    return "healthy" if change.after.healthy else "unhealthy", change.after

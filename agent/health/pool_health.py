"""A pool's health over time: what checks give, what is delayed, and what kubelet gets."""

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
    """One device whose reported health changed; None = it was, or is, not in the pool."""

    device_id: str
    before: Health | None
    after: Health | None


@frozen(eq=False)
class HealthInputs:
    """All that a pool's health depends on; while it is unchanged, so is the result."""

    pool: Pool
    snapshot: Snapshot
    held: frozenset[str]
    held_mates: frozenset[str]
    """Members of whose IOMMU group pods hold another function."""
    carriers: tuple[Netdev, ...]
    """The netdevs that decide on the members' links."""
    facts: tuple[LinkFact | None, ...]
    """The state of each of these netdevs by netlink."""
    unwritten: Mapping[str, Health]
    faults: Mapping[str, Health]
    """The members that fail a check that does not read links."""

    def same_as(self, other: HealthInputs) -> bool:
        """Whether nothing changed; large values are compared by identity."""
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
    """One pool's members with the health in kubelet's list."""

    pool: Pool
    state: Dampening = Dampening()
    inputs: HealthInputs | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def next_due(self) -> float | None:
        """Loop time at which the next delayed recovery is reported; None = none is delayed."""
        return self.state.next_due

    def is_current(self, inputs: HealthInputs) -> bool:
        """Whether assessing again gives the same: nothing changed, and no recovery is delayed."""
        before = self.inputs
        return before is not None and self.next_due is None and before.same_as(inputs)

    def offer(self) -> DeviceListing:
        """The full list for kubelet."""
        return self._offer

    @cached_property
    def _offer(self) -> DeviceListing:
        reported = self.state.reported
        topology = not self.pool.config.exclude_topology
        devices = [m.device for m in self.pool.members]
        listed = [
            ListedDevice(d.id, reported[d.id].healthy, d.numa_node if topology else None)
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
    """The health of ``pool`` at ``now``; ``unwritten`` overrides devices whose files failed.

    Returns ``before`` itself if nothing changed on which the pool depends: a link event of one PF
    costs nothing for the pools of other PFs.
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
    """The current inputs; the netdevs that matter are computed once for a pool and a snapshot."""
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
    """The devices whose reported health differs, in the order of the lists."""
    if before is after:
        return ()
    old = before.state.reported if before else {}
    new = after.state.reported if after else {}
    found = [
        Change(i, known, h)
        for i, h in new.items()
        if (known := old.get(i)) is not h and known != h  # mostly the same object
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

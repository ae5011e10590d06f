"""A pool's health over time: what was judged, what is held back, what is told to kubelet."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.health.assess import assess
from agent.health.hold import HoldState, hold
from agent.health.records import HEALTHY, Health
from agent.model.answers import Advertised, Offer
from agent.model.link import Links
from agent.pools.records import Pool, Pools


@attrs.frozen
class Change:
    """One device whose told health changed; None = it was, or is, not in the pool."""

    device_id: str
    before: Health | None
    after: Health | None


@attrs.frozen
class Outlook:
    """One pool's members with the health that kubelet is told."""

    pool: Pool
    state: HoldState = HoldState()

    @property
    def next_due(self) -> float | None:
        """Loop time at which held-back good news is due."""
        return self.state.next_due

    def offer(self) -> Offer:
        """The full list for kubelet."""
        told = self.state.told
        topology = not self.pool.config.exclude_topology
        return Offer(
            self.pool.resource,
            tuple(
                Advertised(
                    m.device.id,
                    told[m.device.id].healthy,
                    m.device.numa_node if topology else None,
                )
                for m in self.pool.members
            ),
        )


def look(
    before: Outlook | None,
    pool: Pool,
    pools: Pools,
    links: Links,
    now: float,
    unwritten: Mapping[str, Health],
) -> Outlook:
    """The outlook of ``pool`` at ``now``; ``unwritten`` overrides devices whose files failed."""
    raw = {**assess(pool, pools, links), **unwritten}
    state = before.state if before else HoldState()
    return Outlook(pool, hold(state, raw, now, pool.config.health.recovery_hold_s))


def changes(before: Outlook | None, after: Outlook | None) -> tuple[Change, ...]:
    """What was told differently from ``before`` to ``after``, in the order of the lists."""
    old = before.state.told if before else {}
    new = after.state.told if after else {}
    found = [Change(i, old.get(i), h) for i, h in new.items() if old.get(i) != h]
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

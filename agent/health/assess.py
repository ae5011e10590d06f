"""Assesses a pool's members: runs the health checks in order; the first failure is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.driver import DRIVER
from agent.health.group import GROUP
from agent.health.link import LINK
from agent.health.present import PRESENT
from agent.health.verdict import HEALTHY, Health
from agent.model.link import Links
from agent.pools.pool import Member, Pool, Pools

CHECKS: tuple[Check, ...] = (
    PRESENT,
    DRIVER,
    GROUP,
    LINK,
)
"""All checks, the most serious first; those that read links come last."""


def faults(pool: Pool, pools: Pools) -> Mapping[str, Health]:
    """Device id -> health, for the members that fail a check that does not read links; pure."""
    checks = tuple(_prepared(pool, pools, Links(), reads_links=False))
    failures: dict[str, Health] = {}
    for member in pool.members:
        for check in checks:
            health = check(member)
            if health is not HEALTHY:
                failures[member.device.id] = health
                break
    return failures


def assess(
    pool: Pool, pools: Pools, links: Links, known: Mapping[str, Health]
) -> Mapping[str, Health]:
    """Device id -> health, for each member of ``pool`` in its order; ``known`` are its faults."""
    checks = tuple(_prepared(pool, pools, links, reads_links=True))
    if not checks:
        return {m.device.id: known.get(m.device.id, HEALTHY) for m in pool.members}
    if len(checks) == 1:
        (check,) = checks
        return {m.device.id: known.get(m.device.id) or check(m) for m in pool.members}
    return {m.device.id: known.get(m.device.id) or _first_failure(m, checks) for m in pool.members}


def _prepared(
    pool: Pool, pools: Pools, links: Links, *, reads_links: bool
) -> Iterator[MemberCheck]:
    inputs = CheckInputs(pool.config, pools.snapshot, pools.held, links)
    for check in CHECKS:
        if check.reads_links is reads_links and check.applies_to(pool.config):
            yield check.prepare(inputs)


def _first_failure(member: Member, checks: tuple[MemberCheck, ...]) -> Health:
    for check in checks:
        health = check(member)
        if health is not HEALTHY:
            return health
    return HEALTHY

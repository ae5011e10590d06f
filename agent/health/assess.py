"""Assesses a pool's members: the checks in order of gravity, the first that fails is the cause."""

from __future__ import annotations

from collections.abc import Mapping

from agent.health.driver import check_driver
from agent.health.group import check_group
from agent.health.link import LinkAssessor
from agent.health.present import check_present
from agent.health.verdict import HEALTHY, Health
from agent.model.link import Links
from agent.pools.pool import Pool, Pools


def faults(pool: Pool, pools: Pools) -> Mapping[str, Health]:
    """Device id -> what is wrong with it whatever its link does, for the members at fault; pure."""
    held = pools.held.of(pool.resource)
    found: dict[str, Health] = {}
    for member in pool.members:
        verdict = check_present(member)
        if verdict.healthy:
            verdict = check_driver(member, pools.snapshot, held=member.device.id in held)
        if verdict.healthy and member.present:
            verdict = check_group(member.device, pool.config, pools.snapshot, pools.held)
        if not verdict.healthy:
            found[member.device.id] = verdict
    return found


def assess(
    pool: Pool, pools: Pools, links: Links, known: Mapping[str, Health]
) -> Mapping[str, Health]:
    """Device id -> health, for each member of ``pool`` in its order; ``known`` are its faults."""
    if not pool.config.health.link:
        return {m.device.id: known.get(m.device.id, HEALTHY) for m in pool.members}
    judge = LinkAssessor(pools.snapshot, links).judge
    return {
        m.device.id: known.get(m.device.id) or judge(m.device, m.selectors) for m in pool.members
    }

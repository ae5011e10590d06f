"""Assesses a pool's members: the checks in order of gravity, the first that fails is the cause."""

from __future__ import annotations

from collections.abc import Mapping

from agent.health.driver import check_driver
from agent.health.link import check_link
from agent.health.present import check_present
from agent.health.records import HEALTHY, Health
from agent.model.link import Links
from agent.pools.records import Member, Pool, Pools


def assess(pool: Pool, pools: Pools, links: Links) -> Mapping[str, Health]:
    """Device id -> health, for each member of ``pool`` in its order; pure."""
    held = pools.held.of(pool.resource)
    return {m.device.id: _assess(m, pool, pools, links, held) for m in pool.members}


def _assess(member: Member, pool: Pool, pools: Pools, links: Links, held: frozenset[str]) -> Health:
    verdict = check_present(member)
    if verdict.healthy:
        verdict = check_driver(member, pools.snapshot, held=member.device.id in held)
    if verdict.healthy and member.present and pool.config.health.link:
        verdict = check_link(member.device, pools.snapshot, links)
    return verdict if not verdict.healthy else HEALTHY

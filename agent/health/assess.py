"""Assesses a pool's members: the checks in order of gravity, the first that fails is the cause."""

from __future__ import annotations

from collections.abc import Mapping

from agent.health.driver import check_driver
from agent.health.link import LinkJudge
from agent.health.present import check_present
from agent.health.records import HEALTHY, Health
from agent.model.link import Links
from agent.pools.records import Pool, Pools


def assess(pool: Pool, pools: Pools, links: Links) -> Mapping[str, Health]:
    """Device id -> health, for each member of ``pool`` in its order; pure."""
    held = pools.held.of(pool.resource)
    judge = LinkJudge(pools.snapshot, links).judge if pool.config.health.link else None
    verdicts: dict[str, Health] = {}
    for member in pool.members:
        device = member.device
        verdict = check_present(member)
        if verdict is HEALTHY:
            verdict = check_driver(member, pools.snapshot, held=device.id in held)
        if verdict is HEALTHY and judge is not None and member.present:
            verdict = judge(device)
        verdicts[device.id] = verdict
    return verdicts

"""Health check *present*: a device that a pod holds must be on the host.

Only held devices stay in a pool when they disappear. Kubelet shows a device that is dropped from
the list as Healthy for ever, so the device stays in the list as Unhealthy.
"""

from __future__ import annotations

from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.verdict import HEALTHY, Cause, Health
from agent.pools.pool import Member


def _prepare(_inputs: CheckInputs) -> MemberCheck:
    return _check


def _check(member: Member) -> Health:
    if member.present:
        return HEALTHY
    return Health(Cause.GONE, "a pod holds it, and the host no longer has it")


PRESENT = Check(causes=frozenset({Cause.GONE}), prepare=_prepare)

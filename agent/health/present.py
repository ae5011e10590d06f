"""Health check *present*: a device that a pod holds must still be on the host.

Only held devices stay in a pool when they vanish; kubelet would show one that is dropped from the
list as Healthy for ever, so it is told as Unhealthy instead.
"""

from __future__ import annotations

from agent.health.verdict import HEALTHY, Cause, Health
from agent.pools.pool import Member


def check_present(member: Member) -> Health:
    """Unhealthy with cause ``device gone`` where the host has the device no more."""
    if member.present:
        return HEALTHY
    return Health(Cause.GONE, "a pod holds it, and the host has it no more")

"""Delays recoveries until they are stable; failures are reported at once. Pure, explicit time."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.attrs_classes import frozen
from agent.health.verdict import HEALTHY, Health


@frozen
class Recovering:
    """A device that passes its checks again and is still reported as Unhealthy."""

    reported: Health
    until: float
    """Loop time (s) at which the recovery is reported."""


@frozen
class Dampening:
    """The health that was reported last for each device, and the devices that are recovering."""

    reported: Mapping[str, Health] = attrs.field(factory=dict)
    recovering: Mapping[str, Recovering] = attrs.field(factory=dict)

    @property
    def next_due(self) -> float | None:
        """Loop time at which the next recovery is reported; None = none is delayed."""
        return min((r.until for r in self.recovering.values()), default=None)


def dampen(state: Dampening, raw: Mapping[str, Health], now: float, hold_s: float) -> Dampening:
    """What to report at ``now``: failures in ``raw`` at once, recoveries after ``hold_s``.

    A new device is reported as it is; one that is no longer in ``raw`` is forgotten.
    """
    reported: dict[str, Health] = {}
    recovering: dict[str, Recovering] = {}
    for device_id, health in raw.items():
        before = state.reported.get(device_id, HEALTHY)
        if not health.healthy or before.healthy:
            reported[device_id] = health
            continue
        waiting = state.recovering.get(device_id) or Recovering(before, now + hold_s)
        if now >= waiting.until:
            reported[device_id] = health
        else:
            reported[device_id] = before
            recovering[device_id] = waiting
    return Dampening(reported, recovering)

"""Holds good news back until it is stable; bad news passes at once. Pure, in explicit time."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.attrs_classes import frozen
from agent.health.verdict import HEALTHY, Health


@frozen
class Recovering:
    """A device that looks healthy again but is still told as Unhealthy."""

    told: Health
    until: float
    """Loop time (s) at which the good news may be told."""


@frozen
class Dampening:
    """What was told last, per device, and what is recovering."""

    told: Mapping[str, Health] = attrs.field(factory=dict)
    recovering: Mapping[str, Recovering] = attrs.field(factory=dict)

    @property
    def next_due(self) -> float | None:
        """Loop time at which the next good news is due; None = nothing is held back."""
        return min((r.until for r in self.recovering.values()), default=None)


def dampen(state: Dampening, raw: Mapping[str, Health], now: float, hold_s: float) -> Dampening:
    """What to tell at ``now``: bad news of ``raw`` at once, good news after ``hold_s`` of it.

    A device that is new is told as it is; one that is not in ``raw`` any more is forgotten.
    """
    told: dict[str, Health] = {}
    recovering: dict[str, Recovering] = {}
    for device_id, health in raw.items():
        before = state.told.get(device_id, HEALTHY)
        if not health.healthy or before.healthy:
            told[device_id] = health
            continue
        waiting = state.recovering.get(device_id) or Recovering(before, now + hold_s)
        if now >= waiting.until:
            told[device_id] = health
        else:
            told[device_id] = before
            recovering[device_id] = waiting
    return Dampening(told, recovering)

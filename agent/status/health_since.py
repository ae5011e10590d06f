"""Records when the health of each device last changed, for status and explanations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agent.events.devices import (
    DevicesAdded,
    DevicesChanged,
    DevicesHealthy,
    DevicesRemoved,
    DevicesUnhealthy,
)

HEALTH_EVENTS: tuple[type[DevicesChanged | DevicesHealthy], ...] = (
    DevicesAdded,
    DevicesRemoved,
    DevicesUnhealthy,
    DevicesHealthy,
)
"""The events that :meth:`LastTransitions.note` must receive."""


class LastTransitions:
    """Since when each device of a pool has had the health that was reported to kubelet."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changed: dict[str, tuple[str, float]] = {}

    @property
    def changed_at(self) -> Mapping[str, float]:
        """Device id -> time (s since 1970) of its last change, or when it joined its pool."""
        return {device_id: when for device_id, (_, when) in self._changed.items()}

    def note(self, event: DevicesChanged | DevicesHealthy) -> None:
        """Record the changes of one pool; forget a device that leaves it.

        A device that moves joins its new pool before or after it leaves the old one, so only the
        pool that recorded its time last may remove it.
        """
        recorded = (event.resource, self._clock())
        for device_id in event.device_ids:
            if not isinstance(event, DevicesRemoved):
                self._changed[device_id] = recorded
            elif self._changed.get(device_id, ("",))[0] == event.resource:
                del self._changed[device_id]

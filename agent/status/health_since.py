"""Remembers when the health of each device changed: the answer to "since when?"."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agent.state_events import HealthChanged


class LastTransitions:
    """Since when each device in a pool has had the health that kubelet is told of."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changed: dict[str, tuple[str, float]] = {}

    @property
    def changed_at(self) -> Mapping[str, float]:
        """Device id -> seconds since 1970: its last change, or when it came into its pool."""
        return {device_id: when for device_id, (_, when) in self._changed.items()}

    def note(self, event: HealthChanged) -> None:
        """Take in the changes of one pool; a device that leaves it is forgotten.

        A device that moves comes into its new pool before or after it leaves the old one: only
        the pool that dated it last takes its date away.
        """
        dated = (event.resource, self._clock())
        for change in event.changes:
            if change.after is not None:
                self._changed[change.device_id] = dated
            elif self._changed.get(change.device_id, ("",))[0] == event.resource:
                del self._changed[change.device_id]

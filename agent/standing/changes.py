"""Remembers when the health of each device changed: the answer to "since when?"."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agent.state_events import HealthChanged


class HealthDates:
    """When devices last changed their health, for those that did since they were first seen."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changed_at: dict[str, float] = {}

    @property
    def changed_at(self) -> Mapping[str, float]:
        """Device id -> seconds since 1970."""
        return self._changed_at

    def note(self, event: HealthChanged) -> None:
        """Take in a change; a device that comes healthy, or goes, has no date."""
        now = self._clock()
        for change in event.changes:
            came_well = change.before is None and change.after is not None and change.after.healthy
            if change.after is None or came_well:
                self._changed_at.pop(change.device_id, None)
            else:
                self._changed_at[change.device_id] = now

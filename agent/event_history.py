"""Keeps the last log events in memory for ``sriov-agent watch`` and ``/events``.

Followers receive events of every level, with the names and fields that the log has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping

from agent.attrs_classes import frozen
from agent.events.event import LogEvent
from agent.logs import plain

CAPACITY = 256
"""Number of events kept; on a quiet node they cover several hours."""


@frozen
class Entry:
    """One event that occurred."""

    number: int
    """Counts the events of this process from 1."""
    time_s: float
    """Seconds since 1970."""
    level: str
    """``debug``, ``info``, ``warning`` or ``error``."""
    name: str
    fields: Mapping[str, object]
    """Values of JSON types."""


class EventHistory:
    """Keeps events; a slow follower misses the oldest ones and sees a gap in the numbers."""

    def __init__(self, capacity: int = CAPACITY, clock: Callable[[], float] = time.time) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)
        self._clock = clock
        self._waiting: set[asyncio.Event] = set()
        self.newest = 0
        """Number of the newest event."""

    def note(self, event: LogEvent) -> None:
        """Remember an event; a receiver for :func:`agent.logs.follow`."""
        self.newest += 1
        values = {name: plain(value) for name, value in event.fields.items()}
        level = logging.getLevelName(event.level).lower()
        self._entries.append(Entry(self.newest, self._clock(), level, event.name, values))
        for waiting in self._waiting:
            waiting.set()

    def after(self, number: int) -> tuple[Entry, ...]:
        """The kept events that are newer than event ``number``, oldest first."""
        return tuple(entry for entry in self._entries if entry.number > number)

    async def follow(self, after: int = 0) -> AsyncGenerator[Entry, None]:
        """Yield the events newer than ``after``, then each event as it occurs."""
        happened = asyncio.Event()
        self._waiting.add(happened)
        try:
            while True:
                happened.clear()
                for entry in self.after(after):
                    after = entry.number
                    yield entry
                if after >= self.newest:
                    await happened.wait()
        finally:
            self._waiting.discard(happened)

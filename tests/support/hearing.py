"""Waits in a test's loop for what the code under test says in its log stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agent import logs
from agent.events.event import LogEvent

PATIENCE_S = 20.0


class Hearing:
    """Every event since it began."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self._heard = asyncio.Event()

    def note(self, event: LogEvent) -> None:
        """Take in an event."""
        self.events.append((event.name, event.fields))
        self._heard.set()

    async def until(self, name: str) -> Mapping[str, object]:
        """The fields of the first event of this name, now or later."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event, fields in self.events:
                    if event == name:
                        return fields
                self._heard.clear()
                await self._heard.wait()


@contextmanager
def hearing() -> Iterator[Hearing]:
    """Listen inside."""
    heard = Hearing()
    leave = logs.follow(heard.note)
    try:
        yield heard
    finally:
        leave()

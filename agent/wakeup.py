"""Wakes tasks that wait for a state which another task of the loop changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Wakeup:
    """Wakes all waiting tasks; each then checks its own condition again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """The state changed."""
        # A new event replaces the set one, or the next wait would return at once.
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until ``condition`` is true; returns at once if it is already."""
        while not condition():
            await self._event.wait()

    async def run_unless(
        self, condition: Callable[[], object], call: Coroutine[None, None, None]
    ) -> bool:
        """Run ``call``; cancel it when ``condition`` is true. Returns whether it finished."""
        work = asyncio.ensure_future(call)
        guard = asyncio.ensure_future(self.until(condition))
        try:
            await asyncio.wait({work, guard}, return_when=asyncio.FIRST_COMPLETED)
            finished = work.done()
        finally:
            guard.cancel()
            work.cancel()
            await asyncio.gather(work, guard, return_exceptions=True)
        if finished:
            work.result()
        return finished

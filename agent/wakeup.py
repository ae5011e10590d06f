"""A wake-up for everyone who waits on state that one task of the loop changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


class Wakeup:
    """Wakes all waiters at once; each then looks at the state again by its own condition."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Say that the state changed."""
        # A new event takes the place of the set one, or the next wait would return at once.
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until ``condition`` is true; returns at once if it is already."""
        while not condition():
            await self._event.wait()

    async def run_unless(
        self, condition: Callable[[], object], call: Coroutine[None, None, None]
    ) -> bool:
        """Run ``call``, cancelled as soon as ``condition`` is true; tells whether it finished."""
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

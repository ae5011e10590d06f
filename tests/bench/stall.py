"""How long an event loop waits for its turn while something else is at work in the process.

Only waits count in which this process itself was using a processor: what other processes do to a
loop on a shared machine is not the agent's doing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from agent.startup import shorten_switch_interval

PAUSE_S = 0.001


def longest_s(work: Callable[[], Awaitable[object]]) -> float:
    """The longest time (s) by which its own process made a loop late, during ``work``."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        worst = 0.0
        working = asyncio.ensure_future(work())
        while not working.done():
            due, used = loop.time() + PAUSE_S, time.process_time()
            await asyncio.sleep(PAUSE_S)
            worst = max(worst, min(loop.time() - due, time.process_time() - used))
        await working
        return worst

    shorten_switch_interval()  # as the agent does
    return asyncio.run(main())


def floor_s(seconds: float) -> float:
    """The same while a thread only sleeps: what the machine itself does to a loop."""
    return longest_s(lambda: asyncio.to_thread(time.sleep, seconds))

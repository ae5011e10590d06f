from __future__ import annotations

import asyncio

import pytest

from agent.bus import Bus
from agent.endpoints import first_lists
from agent.events.plugin import StreamOpened

pytestmark = pytest.mark.looptime


async def waited(*opened_at: float, limit_s: float = 1.0) -> float:
    """How long the first lists are waited for if streams open at these moments."""
    bus, loop = Bus(), asyncio.get_running_loop()
    for moment in opened_at:
        loop.call_later(moment, bus.publish, StreamOpened(resource="r", generation=1))
    began = loop.time()
    await first_lists(bus, limit_s)
    return loop.time() - began


async def test_the_first_lists_are_complete_when_no_further_stream_opens() -> None:
    assert await waited(0.2, 0.24, 0.28) == pytest.approx(0.33)


async def test_the_wait_for_streams_is_limited() -> None:
    assert await waited() == pytest.approx(1.0)


async def test_streams_that_keep_opening_do_not_delay_others_for_ever() -> None:
    moments = [n * 0.04 for n in range(1, 100)]
    assert await waited(*moments, limit_s=0.5) == pytest.approx(0.5)

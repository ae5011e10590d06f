from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from agent import logs
from agent.event_history import Entry, EventHistory
from agent.events.pools import PoolNote
from tests.support.log_lines import LogLines


def noted(*notes: str, capacity: int = 10) -> EventHistory:
    history = EventHistory(capacity, clock=lambda: 7.0)
    leave = logs.follow(history.note)
    for note in notes:
        logs.emit(PoolNote(resource="r", note=note))
    leave()
    return history


async def take(entries: AsyncIterator[Entry], count: int) -> list[int]:
    async with asyncio.timeout(5):
        return [(await anext(entries)).number for _ in range(count)]


def test_an_event_is_remembered_with_number_time_level_and_plain_fields() -> None:
    history = EventHistory(clock=lambda: 7.0)
    leave = logs.follow(history.note)
    logs.emit(PoolNote(resource="r", note=cast("str", Path("/x"))))
    leave()
    logs.emit(PoolNote(resource="r", note="after the journal left"))
    assert history.after(0) == (
        Entry(1, 7.0, "warning", "pool.note", {"resource": "r", "note": "/x"}),
    )


def test_events_below_the_logs_own_level_are_remembered(log_lines: LogLines) -> None:
    logs.configure(logs.parse_level("error"), "json", log_lines.stream)
    assert len(noted("quiet").after(0)) == 1
    assert log_lines.all() == []


def test_only_the_newest_events_are_kept() -> None:
    history = noted(*"abcdefgh", capacity=3)
    assert [e.number for e in history.after(0)] == [6, 7, 8]
    assert history.newest == 8


async def test_a_follower_gets_the_past_then_each_event_as_it_happens() -> None:
    history = noted("a", "b")
    entries = history.follow()
    assert await take(entries, 2) == [1, 2]
    next_one = asyncio.ensure_future(anext(entries))
    await asyncio.sleep(0)
    assert not next_one.done()
    leave = logs.follow(history.note)
    logs.emit(PoolNote(resource="r", note="c"))
    leave()
    assert (await next_one).fields["note"] == "c"


async def test_a_follower_that_knows_some_events_gets_only_newer_ones() -> None:
    assert await take(noted("a", "b", "c").follow(after=2), 1) == [3]


async def test_a_slow_follower_sees_a_gap_in_the_numbers() -> None:
    history = noted("a", capacity=2)
    entries = history.follow()
    assert await take(entries, 1) == [1]
    leave = logs.follow(history.note)
    for note in "bcdef":
        logs.emit(PoolNote(resource="r", note=note))
    leave()
    assert await take(entries, 2) == [5, 6]


async def test_a_follower_that_disconnects_is_forgotten() -> None:
    history = noted("a")
    entries = history.follow()
    await take(entries, 1)
    assert len(history._waiting) == 1
    await entries.aclose()
    assert not history._waiting

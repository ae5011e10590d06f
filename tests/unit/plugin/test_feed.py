from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import attrs
import pytest

from agent.model.answers import Advertised
from agent.plugin.encoding import encode_list
from agent.plugin.feed import DeviceFeed
from agent.plugin.signal import Signal


@attrs.define
class Notes:
    """What the feed told."""

    told: list[object] = attrs.Factory(list)

    def stream_opened(self) -> None:
        self.told.append("opened")

    def stream_lost(self) -> None:
        self.told.append("lost")

    def list_pushed(self, sequence: int, devices: tuple[Advertised, ...]) -> None:
        self.told.append((sequence, len(devices)))


def devices(count: int) -> tuple[Advertised, ...]:
    return tuple(Advertised(f"d{i}") for i in range(count))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def feed(notes: Notes) -> DeviceFeed:
    made = DeviceFeed(Signal(), notes)
    made.publish(devices(1))
    return made


class Stream:
    """A stream in a task of its own; each send waits for ``go_on``."""

    def __init__(self, feed: DeviceFeed) -> None:
        self.sent: list[bytes] = []
        self.arrived = asyncio.Event()
        self._permits = asyncio.Semaphore(0)
        self.task: asyncio.Task[None] = asyncio.create_task(self._run(feed))

    async def _run(self, feed: DeviceFeed) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        lists: AsyncIterator[bytes] = feed.follow(task)
        async with aclosing(cast("Any", lists)):
            async for encoded in lists:
                self.sent.append(encoded)
                self.arrived.set()
                await self._permits.acquire()

    def go_on(self, sends: int = 1) -> None:
        for _ in range(sends):
            self._permits.release()

    async def next(self) -> None:
        async with asyncio.timeout(5):
            await self.arrived.wait()
        self.arrived.clear()

    async def end(self) -> None:
        async with asyncio.timeout(5):
            await asyncio.wait({self.task})


async def test_a_stream_gets_the_list_at_once_and_each_newer_one(feed: DeviceFeed) -> None:
    stream = Stream(feed)
    stream.go_on(100)
    for count in (1, 2, 3):
        feed.publish(devices(count))
        await stream.next()
    assert stream.sent == [encode_list(devices(count)) for count in (1, 2, 3)]
    feed.end()
    await stream.end()


async def test_a_slow_stream_gets_the_newest_list_and_none_in_between(
    feed: DeviceFeed, notes: Notes
) -> None:
    stream = Stream(feed)
    await stream.next()
    for count in range(2, 1000):
        feed.publish(devices(count))
    stream.go_on(2)
    await stream.next()
    feed.end()
    await stream.end()
    assert stream.sent[1:] == [encode_list(devices(999))]
    assert notes.told == ["opened", (1, 1), (999, 999)]


async def test_an_equal_list_is_no_news(feed: DeviceFeed) -> None:
    assert [feed.publish(devices(count)) for count in (1, 2, 2, 0)] == [False, True, False, True]
    assert feed.sequence == 3


async def test_an_empty_list_is_a_list(notes: Notes) -> None:
    feed = DeviceFeed(Signal(), notes)
    feed.publish(())
    stream = Stream(feed)
    await stream.next()
    assert stream.sent == [b""]
    stream.go_on()
    feed.end()
    await stream.end()


async def test_a_newer_stream_ends_the_older_and_gets_every_update(
    feed: DeviceFeed, notes: Notes
) -> None:
    older = Stream(feed)
    older.go_on(100)
    await older.next()
    newer = Stream(feed)
    newer.go_on(100)
    await newer.next()
    await older.end()
    feed.publish(devices(2))
    await newer.next()
    assert len(older.sent) == 1
    assert len(newer.sent) == 2
    assert feed.live
    assert "lost" not in notes.told
    feed.end()
    await newer.end()


async def test_an_older_stream_that_hangs_in_a_send_is_cancelled(feed: DeviceFeed) -> None:
    older = Stream(feed)
    await older.next()
    newer = Stream(feed)
    newer.go_on(100)
    await newer.next()
    await older.end()
    assert older.task.cancelled()
    assert feed.live
    feed.end()
    await newer.end()


async def test_a_stream_that_breaks_is_lost_and_one_asked_to_end_is_not(
    feed: DeviceFeed, notes: Notes
) -> None:
    stream = Stream(feed)
    await stream.next()
    stream.task.cancel()
    await stream.end()
    assert notes.told == ["opened", "lost"]
    assert not feed.live
    stream = Stream(feed)
    stream.go_on()
    await stream.next()
    feed.end()
    await stream.end()
    assert notes.told[2:] == ["opened", (1, 1)]


async def test_after_the_end_no_stream_opens_until_the_next_begin(
    feed: DeviceFeed, notes: Notes
) -> None:
    feed.end()
    refused = Stream(feed)
    await refused.end()
    assert notes.told == []
    feed.begin()
    stream = Stream(feed)
    await stream.next()
    assert feed.opened == 1
    stream.task.cancel()
    await stream.end()

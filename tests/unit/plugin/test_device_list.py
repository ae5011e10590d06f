from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import attrs
import pytest

from agent.model.answers import ListedDevice
from agent.plugin.device_list import DeviceList
from agent.plugin.encoding import encode_list
from agent.wakeup import Wakeup


@attrs.define
class Notes:
    """What the feed told."""

    told: list[object] = attrs.Factory(list)
    causes: list[float | None] = attrs.Factory(list)

    def stream_opened(self) -> None:
        self.told.append("opened")

    def stream_lost(self) -> None:
        self.told.append("lost")

    def list_pushed(
        self, sequence: int, devices: tuple[ListedDevice, ...], seen_at: float | None
    ) -> None:
        self.causes.append(seen_at)
        self.told.append((sequence, len(devices)))


def devices(count: int) -> tuple[ListedDevice, ...]:
    return tuple(ListedDevice(f"d{i}") for i in range(count))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def device_list(notes: Notes) -> DeviceList:
    made = DeviceList(Wakeup(), notes)
    made.publish(devices(1))
    return made


class Stream:
    """A stream in a task of its own; each send waits for ``go_on``."""

    def __init__(self, device_list: DeviceList) -> None:
        self.sent: list[bytes] = []
        self.arrived = asyncio.Event()
        self._permits = asyncio.Semaphore(0)
        self.task: asyncio.Task[None] = asyncio.create_task(self._run(device_list))

    async def _run(self, device_list: DeviceList) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        lists: AsyncIterator[bytes] = device_list.follow(task)
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


async def test_a_stream_gets_the_list_at_once_and_each_newer_one(device_list: DeviceList) -> None:
    stream = Stream(device_list)
    stream.go_on(100)
    for count in (1, 2, 3):
        device_list.publish(devices(count))
        await stream.next()
    assert stream.sent == [encode_list(devices(count)) for count in (1, 2, 3)]
    device_list.end()
    await stream.end()


async def test_a_slow_stream_gets_the_newest_list_and_skips_those_in_between(
    device_list: DeviceList, notes: Notes
) -> None:
    stream = Stream(device_list)
    await stream.next()
    for count in range(2, 1000):
        device_list.publish(devices(count))
    stream.go_on(2)
    await stream.next()
    device_list.end()
    await stream.end()
    assert stream.sent[1:] == [encode_list(devices(999))]
    assert notes.told == ["opened", (1, 1), (999, 999)]


async def test_an_equal_list_replaces_the_one_that_was_sent_in_memory_too(
    device_list: DeviceList,
) -> None:
    sent = devices(2)
    references = sys.getrefcount(sent)
    device_list.publish(sent)
    stream = Stream(device_list)
    stream.go_on()
    await stream.next()
    await device_list.wakeup.until(lambda: device_list.pushed == device_list.sequence)
    device_list.publish(devices(2))
    await asyncio.sleep(0)
    assert sys.getrefcount(sent) == references
    device_list.end()
    await stream.end()


async def test_an_equal_list_is_not_sent_again(device_list: DeviceList) -> None:
    sequences = []
    for count in (1, 2, 2, 0):
        device_list.publish(devices(count))
        sequences.append(device_list.sequence)
    assert sequences == [1, 2, 2, 3]


async def test_a_list_is_sent_with_its_first_cause_that_was_not_sent_yet(
    device_list: DeviceList, notes: Notes
) -> None:
    stream = Stream(device_list)
    await stream.next()
    device_list.publish(devices(1), seen_at=1.0)  # an equal list has no effect
    stream.go_on()
    device_list.publish(devices(2), seen_at=None)
    await stream.next()
    device_list.publish(devices(3), seen_at=3.0)
    device_list.publish(devices(4), seen_at=4.0)
    stream.go_on(2)
    await stream.next()
    device_list.end()
    await stream.end()
    assert notes.causes == [None, 3.0, None]


async def test_an_empty_list_is_a_list(notes: Notes) -> None:
    device_list = DeviceList(Wakeup(), notes)
    device_list.publish(())
    stream = Stream(device_list)
    await stream.next()
    assert stream.sent == [b""]
    stream.go_on()
    device_list.end()
    await stream.end()


async def test_a_newer_stream_ends_the_older_and_gets_every_update(
    device_list: DeviceList, notes: Notes
) -> None:
    older = Stream(device_list)
    older.go_on(100)
    await older.next()
    newer = Stream(device_list)
    newer.go_on(100)
    await newer.next()
    await older.end()
    device_list.publish(devices(2))
    await newer.next()
    assert len(older.sent) == 1
    assert len(newer.sent) == 2
    assert device_list.live
    assert "lost" not in notes.told
    device_list.end()
    await newer.end()


async def test_an_older_stream_that_waits_for_a_list_ends_without_being_cancelled(
    device_list: DeviceList,
) -> None:
    older = Stream(device_list)
    older.go_on()
    await older.next()
    await device_list.wakeup.until(lambda: device_list.pushed == device_list.sequence)
    newer = Stream(device_list)
    newer.go_on(100)
    await newer.next()
    await older.end()
    assert not older.task.cancelled()
    device_list.end()
    await newer.end()


async def test_a_new_stream_has_sent_no_list_yet(device_list: DeviceList) -> None:
    stream = Stream(device_list)
    stream.go_on()
    await stream.next()
    device_list.end()
    await stream.end()
    assert device_list.pushed == device_list.sequence
    device_list.begin()
    assert device_list.opened == 0
    stream = Stream(device_list)
    await stream.next()
    assert device_list.pushed != device_list.sequence
    stream.go_on()
    device_list.end()
    await stream.end()


async def test_an_older_stream_that_hangs_in_a_send_is_cancelled(device_list: DeviceList) -> None:
    older = Stream(device_list)
    await older.next()
    newer = Stream(device_list)
    newer.go_on(100)
    await newer.next()
    await older.end()
    assert older.task.cancelled()
    assert device_list.live
    device_list.end()
    await newer.end()


async def test_a_stream_that_breaks_is_reported_as_lost_and_one_that_the_agent_ends_is_not(
    device_list: DeviceList, notes: Notes
) -> None:
    stream = Stream(device_list)
    await stream.next()
    stream.task.cancel()
    await stream.end()
    assert notes.told == ["opened", "lost"]
    assert not device_list.live
    stream = Stream(device_list)
    stream.go_on()
    await stream.next()
    device_list.end()
    await stream.end()
    assert notes.told[2:] == ["opened", (1, 1)]


async def test_after_the_end_no_stream_opens_until_the_next_begin(
    device_list: DeviceList, notes: Notes
) -> None:
    device_list.end()
    refused = Stream(device_list)
    await refused.end()
    assert notes.told == []
    device_list.begin()
    stream = Stream(device_list)
    await stream.next()
    assert device_list.opened == 1
    stream.task.cancel()
    await stream.end()

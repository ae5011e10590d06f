from __future__ import annotations

import asyncio

import attrs

from agent.bus import Bus


@attrs.frozen
class Ping:
    number: int


@attrs.frozen
class LoudPing(Ping):
    pass


async def test_a_subscriber_gets_the_newest_event_and_never_a_queue() -> None:
    bus = Bus()
    with bus.subscribe(Ping) as pings:
        for number in range(1000):
            bus.publish(Ping(number))
        assert await pings.take() == Ping(999)
        waiting = asyncio.create_task(pings.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        bus.publish(Ping(1000))
        assert await waiting == Ping(1000)


async def test_each_subscriber_has_its_own_slot() -> None:
    bus = Bus()
    with bus.subscribe(Ping) as first, bus.subscribe(Ping) as second:
        bus.publish(Ping(1))
        assert await first.take() == Ping(1)
        bus.publish(Ping(2))
        assert (await first.take(), await second.take()) == (Ping(2), Ping(2))


async def test_events_from_before_joining_are_not_delivered() -> None:
    bus = Bus()
    bus.publish(Ping(1))
    with bus.subscribe(Ping) as pings:
        bus.publish(Ping(2))
        assert await pings.take() == Ping(2)


async def test_only_subscribers_of_exactly_the_class_get_an_event() -> None:
    bus = Bus()
    heard: list[object] = []
    bus.on(Ping, heard.append)
    bus.publish(LoudPing(1))
    bus.publish("text")
    assert heard == []
    bus.publish(Ping(1))
    assert heard == [Ping(1)]


async def test_a_callback_gets_every_event_in_order_before_publish_returns() -> None:
    bus = Bus()
    heard: list[tuple[str, int]] = []
    bus.on(Ping, lambda e: heard.append(("first", e.number)))
    bus.on(Ping, lambda e: heard.append(("second", e.number)))
    for number in range(2):
        bus.publish(Ping(number))
        heard.append(("returned", number))
    assert heard == [
        ("first", 0),
        ("second", 0),
        ("returned", 0),
        ("first", 1),
        ("second", 1),
        ("returned", 1),
    ]


async def test_following_a_subscription_continues_until_it_is_left() -> None:
    bus = Bus()
    heard = []
    with bus.subscribe(Ping) as pings:
        bus.publish(Ping(1))
        async for ping in pings:
            heard.append(ping.number)
            if ping.number == 3:
                break
            bus.publish(Ping(ping.number + 1))
    bus.publish(Ping(4))
    assert heard == [1, 2, 3]


async def test_a_wait_that_is_cancelled_loses_no_event() -> None:
    bus = Bus()
    with bus.subscribe(Ping) as pings:
        waiting = asyncio.create_task(pings.take())
        await asyncio.sleep(0)
        bus.publish(Ping(1))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await pings.take() == Ping(1)


async def test_after_closing_nothing_is_delivered() -> None:
    bus = Bus()
    pings = bus.subscribe(Ping)
    pings.close()
    pings.close()
    bus.publish(Ping(1))
    waiting = asyncio.create_task(pings.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_a_subscriber_that_leaves_during_an_event_does_not_get_it() -> None:
    bus = Bus()
    heard: list[str] = []
    bus.on(Ping, lambda _: leave())
    leave = bus.on(Ping, lambda _: heard.append("left"))
    bus.on(Ping, lambda _: heard.append("last"))
    bus.publish(Ping(1))
    assert heard == ["last"]


async def test_a_subscriber_that_joins_during_an_event_gets_the_next_one() -> None:
    bus = Bus()
    heard: list[Ping] = []

    def join(_: Ping) -> None:
        leave()
        bus.on(Ping, heard.append)

    leave = bus.on(Ping, join)
    bus.publish(Ping(1))
    bus.publish(Ping(2))
    assert heard == [Ping(2)]


async def test_leaving_twice_ends_only_the_own_subscription() -> None:
    bus = Bus()
    heard: list[Ping] = []
    leave = bus.on(Ping, heard.append)
    bus.on(Ping, heard.append)
    leave()
    leave()
    bus.publish(Ping(1))
    assert heard == [Ping(1)]


async def test_publishing_starts_no_task() -> None:
    bus = Bus()
    with bus.subscribe(Ping):
        before = asyncio.all_tasks()
        bus.publish(Ping(1))
        assert asyncio.all_tasks() == before

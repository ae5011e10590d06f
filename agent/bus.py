"""The event bus of the agent: frozen values, published synchronously.

``publish`` never waits and starts no task. ``on`` registers a callback, which receives every event;
``subscribe`` gives a slot that keeps only the newest event, so a slow subscriber has no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from agent import logs
from agent.events.event import LogEvent, RepeatedEvent

EventT = TypeVar("EventT")


class Subscription(Generic[EventT]):
    """One subscriber's slot: holds the newest event that was not yet taken.

    Use it as a context manager, or call ``close``; iterate it to follow events.
    """

    def __init__(self, on_close: Callable[[Subscription[EventT]], None]) -> None:
        self._on_close = on_close
        self._newest: EventT | None = None
        self._filled = asyncio.Event()

    def put(self, event: EventT) -> None:
        """Replace what the slot holds and wake the subscriber."""
        self._newest = event
        self._filled.set()

    async def take(self) -> EventT:
        """The newest event, once; waits for one if the slot is empty."""
        while self._newest is None:
            await self._filled.wait()
        event, self._newest = self._newest, None
        self._filled.clear()
        return event

    def close(self) -> None:
        """End the subscription; nothing is delivered after it."""
        self._on_close(self)

    def __enter__(self) -> Subscription[EventT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[EventT]:
        while True:
            yield await self.take()


class Bus:
    """Delivers each event to the subscribers of exactly its class, in order of joining."""

    def __init__(self) -> None:
        self._receivers: dict[type, dict[object, Callable[[Any], None]]] = {}

    def publish(self, event: object, *, once: str | None = None) -> None:
        """Log a log event, and hand ``event`` to every subscriber of its class, now.

        With the key ``once``, repetitions are logged as by :func:`agent.logs.emit_once`.
        """
        if isinstance(event, LogEvent):
            if once is not None and isinstance(event, RepeatedEvent):
                logs.emit_once(event, once)
            else:
                logs.emit(event)
        receivers = self._receivers.get(type(event), {})
        for place, receive in tuple(receivers.items()):
            if place in receivers:
                receive(event)

    def subscribe(self, event_type: type[EventT]) -> Subscription[EventT]:
        """A slot that holds the newest event of ``event_type`` published from now on."""
        subscription: Subscription[EventT] = Subscription(lambda _: leave())
        leave = self.on(event_type, subscription.put)
        return subscription

    def on(self, event_type: type[EventT], receive: Callable[[EventT], None]) -> Callable[[], None]:
        """Call ``receive`` with every event of ``event_type``; it must not block nor raise.

        Returns the function that ends this, which may be called more than once.
        """
        receivers = self._receivers.setdefault(event_type, {})
        place = object()
        receivers[place] = receive

        def leave() -> None:
            receivers.pop(place, None)

        return leave

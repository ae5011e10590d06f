from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent import logs
from agent.event_history import EventHistory
from agent.events.pools import PoolNote
from agent.http.events import HEARTBEAT_S, event_stream
from agent.http.messages import Request, Stream


def noted(*notes: str) -> EventHistory:
    history = EventHistory(clock=lambda: 7.25)
    tell(history, *notes)
    return history


def tell(history: EventHistory, *notes: str) -> None:
    leave = logs.follow(history.note)
    for note in notes:
        logs.emit(PoolNote(resource="r", note=note))
    leave()


def asked(history: EventHistory, *, seen: str = "", query: dict[str, str] | None = None) -> Stream:
    headers = {"last-event-id": seen} if seen else {}
    return event_stream(history, Request("/events", query or {}, headers), "run1")


async def take(stream: Stream, count: int) -> list[dict[str, Any]]:
    """The data of the next events, each with its ``id``."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            lines = (await anext(stream.chunks)).decode().splitlines()
            fields = dict(line.split(": ", 1) for line in lines if line and line[0] != ":")
            if "data" in fields:
                found.append({"id": fields["id"], **json.loads(fields["data"])})
    return found


async def test_an_event_is_what_the_json_log_says_with_a_number() -> None:
    stream = asked(noted("x"))
    assert stream.content_type == "text/event-stream"
    assert await take(stream, 1) == [
        {
            "id": "run1-1",
            "number": 1,
            "time": 7.25,
            "level": "warning",
            "event": "pool.note",
            "resource": "r",
            "note": "x",
        }
    ]
    await stream.chunks.aclose()


@pytest.mark.parametrize(
    ("seen", "first"), [("", 1), ("run1-2", 3), ("other-2", 1), ("run1-x", 1), ("junk", 1)]
)
async def test_a_client_that_reconnects_gets_the_events_of_this_process_that_it_missed(
    seen: str, first: int
) -> None:
    stream = asked(noted("a", "b", "c"), seen=seen)
    assert (await take(stream, 1))[0]["number"] == first
    await stream.chunks.aclose()


async def test_the_past_can_be_left_out() -> None:
    history = noted("a", "b")
    stream = asked(history, query={"from": "now"})
    tell(history, "c")
    assert (await take(stream, 1))[0]["number"] == 3
    await stream.chunks.aclose()


@pytest.mark.looptime
async def test_a_stream_without_events_sends_keep_alive_comments() -> None:
    stream = asked(noted())
    assert (await anext(stream.chunks)).startswith(b"retry: ")
    began = asyncio.get_running_loop().time()
    assert (await anext(stream.chunks)).startswith(b": ")
    assert asyncio.get_running_loop().time() - began == HEARTBEAT_S
    await stream.chunks.aclose()


async def test_a_line_break_in_a_field_cannot_forge_an_event() -> None:
    stream = asked(noted("a\n\ndata: {}"))
    assert (await take(stream, 1))[0]["note"] == "a\n\ndata: {}"
    await stream.chunks.aclose()

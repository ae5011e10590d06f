"""The event history as server-sent events (HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from agent.event_history import Entry, EventHistory
from agent.http.messages import Request, Stream

HEARTBEAT_S = 15.0
"""Interval of comments, which show clients and proxies that the connection is open."""
_RETRY_MS = 2000


def event_stream(history: EventHistory, request: Request, run: str) -> Stream:
    """Stream the kept events and all further ones.

    A client that reconnects names the last event it received (``Last-Event-ID``) and gets the
    events after it. ``run`` identifies the process, because each one numbers events from 1.
    ``?from=now`` omits past events.
    """
    after = _seen(request.headers.get("last-event-id", ""), run)
    if after is None:
        after = history.newest if request.query.get("from") == "now" else 0
    return Stream(_chunks(history, after, run), "text/event-stream")


def _seen(event_id: str, run: str) -> int | None:
    of_run, _, number = event_id.partition("-")
    return int(number) if of_run == run and number.isascii() and number.isdigit() else None


async def _chunks(history: EventHistory, after: int, run: str) -> AsyncGenerator[bytes, None]:
    yield f"retry: {_RETRY_MS}\n\n".encode()
    entries = history.follow(after)
    following = asyncio.ensure_future(anext(entries))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=HEARTBEAT_S)
            if not done:
                yield b": still here\n\n"
                continue
            yield sse(following.result(), run)
            following = asyncio.ensure_future(anext(entries))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def sse(entry: Entry, run: str) -> bytes:
    """Encode one event; the data is that of the JSON log, with a number."""
    data = {
        "number": entry.number,
        "time": round(entry.time_s, 3),
        "level": entry.level,
        "event": entry.name,
        **entry.fields,
    }
    text = json.dumps(data, separators=(",", ":"))
    return f"id: {run}-{entry.number}\ndata: {text}\n\n".encode()

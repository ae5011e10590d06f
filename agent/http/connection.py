"""Serves one HTTP connection: h11 implements HTTP/1.1, this module adds limits and I/O."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import attrs
import h11

from agent import blocking
from agent.http.messages import Answer, Request, Stream, plain
from agent.http.places import Limits, Places

Serve = Callable[[Request], Awaitable[Answer | Stream]]
_METHODS = frozenset({b"GET", b"HEAD"})
_GZIP_FROM_BYTES = 1024
_GZIP_FORMAT = 31  # argument wbits of zlib: gzip, with the largest window
_GZIP = ("content-encoding", "gzip")
_HEADERS = (
    ("server", "sriov-agent"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        (
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
            "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
)


class ConnectionLostError(Exception):
    """The client closed the connection or exceeded a limit; it gets no answer."""


class Connection:
    """Answers the requests of one connection in order."""

    is_waiting: bool
    """True while no request is being answered."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        serve: Serve,
        places: Places,
        limits: Limits,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._places = places
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
        self._asked: h11.Request | None = None

    async def run(self) -> None:
        """Serve until the client closes the connection or exceeds a limit."""
        try:
            try:
                while (asked := await self._head()) and await self._answer(asked):
                    self._http.start_next_cycle()
            except h11.RemoteProtocolError as error:
                await self._refuse(error)
            await self._linger()
        except* (ConnectionLostError, OSError):
            self._writer.transport.abort()  # drops unsent data

    async def turn_away(self) -> None:
        """Answer any request with 503: there are too many clients."""
        with suppress(OSError):
            self._writer.write(_TURNED_AWAY)
            await self._linger()

    async def _linger(self) -> None:
        """Close the sending side, then read and discard until the client closes the connection."""
        self.is_waiting = True
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.linger_s):
                while await self._read():
                    pass

    async def _head(self) -> h11.Request | None:
        """Receive the head of the next request; None at the end of the connection or at a limit."""
        self.is_waiting = True
        event: object = self._http.next_event()
        try:
            if event is h11.NEED_DATA:
                async with asyncio.timeout(self._limits.idle_s):
                    await self._receive()
                async with asyncio.timeout(self._limits.head_s):
                    while (event := self._http.next_event()) is h11.NEED_DATA:
                        await self._receive()
        except TimeoutError:
            return None
        return event if isinstance(event, h11.Request) else None

    async def _receive(self) -> None:
        self._http.receive_data(await self._read())

    async def _read(self) -> bytes:
        return await self._reader.read(4096)

    async def _answer(self, asked: h11.Request) -> bool:
        """Answer one request; return whether another may follow."""
        self.is_waiting = False
        self._asked = asked
        has_body = not isinstance(self._http.next_event(), h11.EndOfMessage)
        request = _request(asked)
        with self._places.of_request(request.path).reserve() as is_granted:
            if not is_granted:
                await self._send(_TOO_MANY, close=True)
            elif asked.method not in _METHODS:
                await self._send(_NOT_ALLOWED, close=has_body)
            elif isinstance(answer := await self._serve(request), Stream):
                await self._stream(answer)
            else:
                await self._send(await _packed(answer, asked), close=has_body)
        return self._http.our_state is h11.DONE

    async def _stream(self, stream: Stream) -> None:
        """Send a stream if a slot is free."""
        with self._places.streams.reserve() as is_granted:
            if is_granted:
                await self._send_stream(stream)
            else:
                await self._send(_TOO_MANY_STREAMS, close=True)

    async def _refuse(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            with suppress(ConnectionLostError, OSError):
                await self._send(plain(f"{error}\n", error.error_status_hint), close=True)

    async def _send(self, answer: Answer, *, close: bool) -> None:
        headers = [("content-type", answer.content_type), *answer.headers]
        if answer.status != HTTPStatus.NOT_MODIFIED:
            headers.append(("content-length", str(len(answer.body))))
        if close:
            headers.append(("connection", "close"))
        data = self._start(answer.status, headers)
        if not self._is_head():
            data += self._encoded(h11.Data(data=answer.body))
        await self._write(data + self._encoded(h11.EndOfMessage()))

    async def _send_stream(self, stream: Stream) -> None:
        """Send the chunks until the client closes the connection or sends anything."""
        headers = [("content-type", stream.content_type), ("connection", "close")]
        await self._write(self._start(200, headers))
        if self._is_head():
            return
        async with aclosing(stream.chunks) as chunks, asyncio.TaskGroup() as tasks:
            copying = tasks.create_task(self._copy(chunks))
            gone = tasks.create_task(self._read())
            gone.add_done_callback(lambda _: copying.cancel())
            copying.add_done_callback(lambda _: gone.cancel())

    async def _copy(self, chunks: AsyncIterator[bytes]) -> None:
        async for chunk in chunks:
            await self._write(self._encoded(h11.Data(data=chunk)))

    def _start(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        reason = HTTPStatus(status).phrase.encode()
        response = h11.Response(status_code=status, headers=[*_HEADERS, *headers], reason=reason)
        return self._encoded(response)

    def _encoded(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> bytes:
        return self._http.send(event) or b""

    def _is_head(self) -> bool:
        return self._asked is not None and self._asked.method == b"HEAD"

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._limits.write_s):
                await self._writer.drain()
        except TimeoutError:
            raise ConnectionLostError from None


_LATER = (("retry-after", "5"),)
_TOO_MANY = Answer(b"too many concurrent requests\n", status=503, headers=_LATER)
_TOO_MANY_STREAMS = Answer(b"too many event streams\n", status=503, headers=_LATER)
_TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\n"
    b"content-length: 17\r\n\r\ntoo many clients\n"
)
_NOT_ALLOWED = Answer(b"only GET and HEAD\n", status=405, headers=(("allow", "GET, HEAD"),))


def _request(asked: h11.Request) -> Request:
    target = asked.target.decode("latin-1")
    path, _, query = target.partition("?")
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in asked.headers}
    return Request(unquote(path), dict(parse_qsl(query)), headers)


async def _packed(answer: Answer, asked: h11.Request) -> Answer:
    """Compress the answer if the client accepts gzip and the answer is long enough."""
    accepts = any(k == b"accept-encoding" and b"gzip" in v for k, v in asked.headers)
    if not accepts or len(answer.body) < _GZIP_FROM_BYTES:
        return answer
    body = await blocking.compute(
        "answers", lambda: zlib.compress(answer.body, zlib.Z_BEST_SPEED, _GZIP_FORMAT)
    )
    return attrs.evolve(answer, body=body, headers=(*answer.headers, _GZIP))

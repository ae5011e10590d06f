"""A raw HTTP client on asyncio streams, for tests of what a server does with odd bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from agent.http.address import Address
from agent.http.connection import Serve
from agent.http.places import Limits
from agent.http.server import HttpServer
from tests.support.hearing import hearing

PATIENCE_S = 20.0


@attrs.frozen
class Reply:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, text: str) -> None:
        """Send bytes as they are, with the line ends of HTTP."""
        self.writer.write(text.replace("\n", "\r\n").encode())
        await self.writer.drain()

    async def head(self) -> Reply:
        """The head of an answer."""
        async with asyncio.timeout(PATIENCE_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        pairs = (line.split(": ", 1) for line in lines[1:] if line)
        return Reply(int(lines[0].split()[1]), {k.lower(): v for k, v in pairs}, b"")

    async def reply(self, *, body: bool = True) -> Reply:
        """A whole answer of known length."""
        head = await self.head()
        length = int(head.headers.get("content-length", 0)) if body else 0
        async with asyncio.timeout(PATIENCE_S):
            return attrs.evolve(head, body=await self.reader.readexactly(length))

    async def get(self, path: str, headers: str = "") -> Reply:
        """GET on this connection, which stays open."""
        await self.send(f"GET {path} HTTP/1.1\nhost: x\n{headers}\n")
        return await self.reply()

    async def rest(self) -> bytes:
        """Everything until the server closes; an abort counts as that."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


class Site:
    """A listening server; ``connect`` opens connections, closed at the end."""

    def __init__(self, port: int, running: asyncio.Task[None]) -> None:
        self.port = port
        self.running = running
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        """One more connection."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def get(self, path: str, headers: str = "") -> Reply:
        """GET on a connection of its own."""
        return await (await self.connect()).get(path, headers)


@asynccontextmanager
async def listening(serve: Serve, limits: Limits | None = None) -> AsyncIterator[Site]:
    """A server on a free port of this machine."""
    with hearing() as heard:
        server = HttpServer(Address("127.0.0.1", 0), serve, limits)
        running = asyncio.create_task(server.run())
        address = str((await heard.until("http.listening"))["address"])
    site = Site(int(address.rpartition(":")[2]), running)
    try:
        yield site
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for client in site.clients:
            client.writer.close()

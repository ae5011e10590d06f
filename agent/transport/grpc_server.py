"""A gRPC server on a unix socket: limits per connection, and a limit on their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from grpclib.encoding.proto import ProtoCodec
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from agent.transport.grpc import MAX_MESSAGE_BYTES, BoundedConnection
from agent.transport.unix_socket import BoundSocket

if TYPE_CHECKING:
    from grpclib._typing import IServable

MAX_PEERS = 64
"""Connections of one server; kubelet needs two."""


class Peers:
    """The connections of one server, at most ``MAX_PEERS`` of them.

    A further one replaces the oldest without a request; if there is none, it is refused.
    """

    def __init__(self) -> None:
        self._connections: dict[BoundedConnection, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[BoundedConnection]:
        return iter(tuple(self._connections))

    def admit(self, connection: BoundedConnection) -> bool:
        """Add a new connection before it is used; False = it must be closed."""
        if self._is_closed:
            return False
        if len(self._connections) >= MAX_PEERS:
            idle = next((c for c in self._connections if not c.processor.streams), None)
            if idle is None:
                return False
            del self._connections[idle]
            idle.transport.abort()
        self._connections[connection] = None
        return True

    def remove(self, connection: BoundedConnection) -> None:
        """A connection is lost."""
        self._connections.pop(connection, None)

    def close(self) -> None:
        """Close all connections once their buffers are written, and admit no further one.

        The loop may still deliver a connection that was accepted before the listener was closed.
        """
        self._is_closed = True
        for connection in self:
            connection.transport.close()


class _ServedConnection(BoundedConnection):
    """A connection of a server, which decides whether to admit it."""

    def __init__(self, plain: H2Protocol, server: AdmittingServer) -> None:
        super().__init__(plain.handler, plain.config, plain.h2_config)
        self.max_message_bytes = server.max_message_bytes
        self._server = server
        self._is_admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer, or close the connection before anything is read from it."""
        server = self._server
        self._is_admitted = server.is_trusted(transport) and server.peers.admit(self)
        if self._is_admitted:
            super().connection_made(transport)
        else:
            cast("asyncio.Transport", transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection."""
        if self._is_admitted:
            super().connection_lost(exc)
        self._server.peers.remove(self)
        self._server.on_lost()


class AdmittingServer(Server):
    """grpclib's server with limits; ``peers`` has its connections also after ``close``.

    ``is_trusted`` decides on each connection before anything is read from it. ``on_lost`` is
    called after a connection was removed from ``peers``.
    """

    def __init__(
        self,
        services: Sequence[IServable],
        codec: ProtoCodec,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        is_trusted: Callable[[asyncio.BaseTransport], bool] = lambda _: True,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(services, codec=codec)
        self.peers = Peers()
        self.max_message_bytes = max_message_bytes
        self.is_trusted = is_trusted
        self.on_lost = on_lost

    def _protocol_factory(self) -> H2Protocol:
        return _ServedConnection(super()._protocol_factory(), self)

    async def hang_up(self, bound: BoundSocket) -> None:
        """Stop listening, and close all connections; ``bound`` is the socket it listens on."""
        await bound.stop_accepting()
        self.close()
        self.peers.close()

    async def closed_within(self, limit_s: float) -> None:
        """Wait until all handlers have ended, at most ``limit_s``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.wait_closed()

"""gRPC with kubelet over unix sockets: bounded messages, ready-made bytes, one kind of failure.

Both directions use it: calls to kubelet, and the servers that kubelet calls.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol, Stream
from h2.events import RequestReceived
from h2.exceptions import H2Error

from agent import blocking, logs
from agent.errors import KubeletUnavailableError

MAX_MESSAGE_BYTES = 4 * 2**20
"""What gRPC takes by default; the largest message of the device-plugin API stays below it."""

RECEIVE_LIMIT_S = 10.0
"""From a message's length to its last byte."""
MAX_PEERS = 64
"""Kubelet needs two connections to a socket."""

ResultT = TypeVar("ResultT")


class WireCodec(ProtoCodec):
    """Messages as betterproto2 knows them; ``bytes`` stand for a message already encoded."""

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401 - grpclib's signature
        """The bytes of a message; bytes pass through."""
        return message if isinstance(message, bytes) else super().encode(message, message_type)

    def decode(self, data: bytes, message_type: Any) -> Any:  # noqa: ANN401 - grpclib's signature
        """A message; asked for ``bytes``, what came over the wire."""
        if message_type is bytes:
            return data
        try:
            return super().decode(data, message_type)
        except Exception as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"message not understood: {error}") from error


class _Known(dict[Any, Any]):
    """What to do at each event of HTTP/2: nothing at those that the library does not know.

    Frames of unknown types are to be ignored (RFC 9113, 4.1); the library breaks off.
    """

    def __missing__(self, event: object) -> Callable[[object], None]:
        return lambda _: None


class BoundedConnection(H2Protocol):
    """An HTTP/2 connection of which no peer, broken or hostile, can make a burden.

    All messages under way in it together are no longer than ``max_message_bytes``, each is there in
    time, and nothing is read while the peer does not take what it was sent. The library has no
    limits of its own, and would gather four GiB if the peer announced them.
    """

    max_message_bytes = MAX_MESSAGE_BYTES
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put the bound on every stream of the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.under_way = 0
        """Bytes of the messages that are being received."""
        super().connection_made(transport)
        self.processor.processors = _Known(self.processor.processors)
        self.processor.processors[RequestReceived] = self._accept
        create = self.connection.create_stream

        def create_bounded(**options: Any) -> Stream:  # noqa: ANN401 - the library's signature
            stream = create(**options)
            read = _Incoming(self, stream.recv_data)
            stream.recv_data = read  # type: ignore[method-assign]  # no other hook exists
            return stream

        self.connection.create_stream = create_bounded  # type: ignore[method-assign]

    def _accept(self, event: RequestReceived) -> None:
        """Begin to answer. A request that is reset before that would never be forgotten."""
        streams, stream_id = self.processor.streams, event.stream_id
        self.processor.process_request_received(event)
        answering = self.handler._tasks[streams[stream_id]]  # type: ignore[attr-defined]  # noqa: SLF001 - it tells nobody
        answering.add_done_callback(lambda _: streams.pop(stream_id, None))

    def data_received(self, data: bytes) -> None:
        """Take in what the peer sent; one that sends what the library cannot take is dropped."""
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - it has none of its own for most of them
            name = type(error).__name__
            logs.emit_once("peer.dropped", name, error=f"{name}: {error}")
            self.processor.close(f"not understood: {name}")

    def pause_writing(self) -> None:
        """Read nothing more to which answers would pile up."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer took what it was sent."""
        super().resume_writing()
        self.transport.resume_reading()


class _Incoming:
    """What the peer sends on one stream, as the library reads it: by turns a header and a body."""

    def __init__(
        self, connection: BoundedConnection, read: Callable[[int], Awaitable[bytes]]
    ) -> None:
        self._connection = connection
        self._read = read
        self._is_header = False

    async def __call__(self, size: int) -> bytes:
        self._is_header = not self._is_header
        try:
            return await (self._header(size) if self._is_header else self._body(size))
        except AssertionError:  # the library's word for it
            raise GRPCError(Status.INVALID_ARGUMENT, "the message is cut off") from None

    async def _header(self, size: int) -> bytes:
        header = await self._read(size)
        if header[:1] not in {b"", b"\0"}:
            raise GRPCError(Status.UNIMPLEMENTED, "compressed messages are not understood")
        return header

    async def _body(self, size: int) -> bytes:
        limit, others = self._connection.max_message_bytes, self._connection.under_way
        if size + others > limit:
            beside = f", with {others} bytes of others under way," if size <= limit else ""
            text = f"message of {size} bytes{beside} is over the limit of {limit}"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
        self._connection.under_way += size
        try:
            async with asyncio.timeout(RECEIVE_LIMIT_S):
                return await self._read(size)
        except TimeoutError:
            text = f"message of {size} bytes did not come within {RECEIVE_LIMIT_S:g} s"
            raise GRPCError(Status.DEADLINE_EXCEEDED, text) from None
        finally:
            self._connection.under_way -= size


class Peers:
    """The connections of one server, at most ``MAX_PEERS`` of them.

    One more takes the place of the oldest on which nothing is asked; without such it is refused.
    """

    def __init__(self) -> None:
        self._connections: dict[BoundedConnection, None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[BoundedConnection]:
        return iter(tuple(self._connections))

    def admit(self, connection: BoundedConnection) -> bool:
        """Take a new connection in, before it is used; False = it must be dropped."""
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

    def forget(self, connection: BoundedConnection) -> None:
        """A connection is lost."""
        self._connections.pop(connection, None)

    def close(self) -> None:
        """Hang up on all, once each has what was written for it, and let nobody in any more.

        The loop may still hand over a peer who came before the listener was closed.
        """
        self._is_closed = True
        for connection in self:
            connection.transport.close()


class ServedConnection(BoundedConnection):
    """A server's connection, as far as there is room for it among its ``peers``."""

    def __init__(self, plain: H2Protocol, peers: Peers) -> None:
        super().__init__(plain.handler, plain.config, plain.h2_config)
        self._peers = peers
        self._is_admitted = False

    def may_come(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the peer is let in; it takes its place with that."""
        del transport
        return self._peers.admit(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the peer in, or drop it before anything is read of it."""
        self._is_admitted = self.may_come(transport)
        if self._is_admitted:
            super().connection_made(transport)
        else:
            cast("asyncio.Transport", transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place back."""
        if self._is_admitted:
            super().connection_lost(exc)
        self._peers.forget(self)


class _BoundedChannel(Channel):
    """A client connection with the bound of its caller."""

    def __init__(self, path: Path, max_reply_bytes: int) -> None:
        super().__init__(path=str(path), codec=WireCodec())
        self._socket = path
        self._max_reply_bytes = max_reply_bytes

    async def _create_connection(self) -> H2Protocol:
        """As the library does it, but for the walk along the path, which may hang: connect(2)."""
        purpose = self._socket.parent.name
        peer = await blocking.call(purpose, self._socket, self._dial, undo=socket.socket.close)
        try:
            _, protocol = await self._loop.create_unix_connection(self._protocol_factory, sock=peer)
        except BaseException:
            peer.close()
            raise
        return protocol

    def _dial(self) -> socket.socket:
        """A connected socket; for a thread. Raises OSError."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            peer.connect(str(self._socket))
        except BaseException:
            peer.close()
            raise
        return peer

    def _protocol_factory(self) -> H2Protocol:
        plain = super()._protocol_factory()
        bounded = BoundedConnection(plain.handler, plain.config, plain.h2_config)
        bounded.max_message_bytes = self._max_reply_bytes
        return bounded


async def ask(
    path: Path,
    call: Callable[[Channel], Awaitable[ResultT]],
    *,
    deadline_s: float,
    max_reply_bytes: int = MAX_MESSAGE_BYTES,
) -> ResultT:
    """Dial the socket at ``path``, make one call, hang up.

    Raises KubeletUnavailableError, and nothing else, whatever went wrong on the way: the socket
    missing or refusing, a hang-up at any moment, an error status, no answer in time.
    """
    channel = _BoundedChannel(path, max_reply_bytes)
    try:
        async with asyncio.timeout(deadline_s):
            return await call(channel)
    except TimeoutError as error:
        # One of the dialling says itself what hangs; that of the deadline has no text.
        text = f"{path}: {error.strerror or f'no answer within {deadline_s:g} s'}"
        raise KubeletUnavailableError(text) from error
    except GRPCError as error:
        text = f"{path}: {error.status.name}: {error.message}"
        raise KubeletUnavailableError(text) from error
    except OSError as error:
        raise KubeletUnavailableError(f"{path}: {error.strerror or error}") from error
    except (StreamTerminatedError, H2Error, AttributeError, AssertionError) as error:
        # The last two come from inside the library when the peer hangs up before the first
        # stream, or in the middle of a message.
        raise KubeletUnavailableError(f"{path}: hung up") from error
    finally:
        channel.close()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn

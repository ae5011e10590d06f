"""gRPC over unix sockets: connections with limits, encoded messages as bytes, and unary calls.

Servers are in :mod:`agent.transport.grpc_server`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
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
from agent.errors import AgentError
from agent.events.endpoints import PeerDropped

MAX_MESSAGE_BYTES = 4 * 2**20
"""gRPC's default limit; the largest message of the device-plugin API is smaller."""

RECEIVE_LIMIT_S = 10.0
"""From a message's length to its last byte."""

ResultT = TypeVar("ResultT")


class WireCodec(ProtoCodec):
    """Encodes and decodes messages of betterproto2; ``bytes`` are a message already encoded."""

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401 - grpclib's signature
        """The bytes of a message; bytes are returned as they are."""
        return message if isinstance(message, bytes) else super().encode(message, message_type)

    def decode(self, data: bytes, message_type: Any) -> Any:  # noqa: ANN401 - grpclib's signature
        """A message; the received bytes if ``message_type`` is ``bytes``."""
        if message_type is bytes:
            return data
        try:
            return super().decode(data, message_type)
        except Exception as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"message not understood: {error}") from error


class _EventHandlers(dict[Any, Any]):
    """The handlers of HTTP/2 events by type; an event without a handler is ignored.

    Frames of unknown types must be ignored (RFC 9113, 4.1); the library raises KeyError.
    """

    def __missing__(self, event: object) -> Callable[[object], None]:
        return lambda _: None


class BoundedConnection(H2Protocol):
    """An HTTP/2 connection with limits on what a broken or hostile peer can cost.

    All messages being received together are no longer than ``max_message_bytes``. Each must arrive
    within ``RECEIVE_LIMIT_S``. Nothing is read while the peer does not read its answers. The
    library itself has no limits: it would buffer four GiB if the peer announced them.
    """

    max_message_bytes = MAX_MESSAGE_BYTES
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Apply the limits to every stream of the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.under_way = 0
        """Bytes of the messages being received."""
        super().connection_made(transport)
        self.processor.processors = _EventHandlers(self.processor.processors)
        self.processor.processors[RequestReceived] = self._accept
        create = self.connection.create_stream

        def create_bounded(**options: Any) -> Stream:  # noqa: ANN401 - the library's signature
            stream = create(**options)
            read = _Incoming(self, stream.recv_data)
            stream.recv_data = read  # type: ignore[method-assign]  # no other hook exists
            return stream

        self.connection.create_stream = create_bounded  # type: ignore[method-assign]

    def _accept(self, event: RequestReceived) -> None:
        """Start the handler, and remove the stream when it ends.

        The library keeps the stream of a request that is reset before its handler runs.
        """
        streams, stream_id = self.processor.streams, event.stream_id
        self.processor.process_request_received(event)
        answering = self.handler._tasks[streams[stream_id]]  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
        answering.add_done_callback(lambda _: streams.pop(stream_id, None))

    def data_received(self, data: bytes) -> None:
        """Process received bytes; close the connection if the library cannot process them."""
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - most are not of one class
            name = type(error).__name__
            logs.emit_once(PeerDropped(error=f"{name}: {error}"), name)
            self.processor.close(f"not understood: {name}")

    def pause_writing(self) -> None:
        """Stop reading: further answers would only be buffered."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer has read its answers: read again."""
        super().resume_writing()
        self.transport.resume_reading()


class _Incoming:
    """Receives the messages of one stream; the library reads a header and a body in turn."""

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
        except AssertionError:  # so the library reports a stream that ends early
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


class _BoundedChannel(Channel):
    """A client channel with a limit on the size of replies."""

    def __init__(self, path: Path, max_reply_bytes: int) -> None:
        super().__init__(path=str(path), codec=WireCodec())
        self._socket = path
        self._max_reply_bytes = max_reply_bytes

    async def _create_connection(self) -> H2Protocol:
        """As the library does, but connect(2) runs in a thread: resolving the path may hang."""
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


async def unary_call(
    path: Path,
    call: Callable[[Channel], Awaitable[ResultT]],
    *,
    failure: type[AgentError],
    deadline_s: float,
    max_reply_bytes: int = MAX_MESSAGE_BYTES,
) -> ResultT:
    """Connect to the socket at ``path``, make one call, close the connection.

    Raises ``failure``, and nothing else, for everything that can go wrong on the way: the socket is
    missing or refuses, the peer closes the connection, an error status, no answer in time.
    """
    channel = _BoundedChannel(path, max_reply_bytes)
    try:
        async with asyncio.timeout(deadline_s):
            return await call(channel)
    except TimeoutError as error:
        # A timeout of connect(2) has a text; that of the deadline has none.
        text = f"{path}: {error.strerror or f'no answer within {deadline_s:g} s'}"
        raise failure(text) from error
    except GRPCError as error:
        text = f"{path}: {error.status.name}: {error.message}"
        raise failure(text) from error
    except OSError as error:
        raise failure(f"{path}: {error.strerror or error}") from error
    except (StreamTerminatedError, H2Error, AttributeError, AssertionError) as error:
        # The last two come from inside the library when the peer closes the connection before the
        # first stream, or in the middle of a message.
        raise failure(f"{path}: the connection was closed") from error
    finally:
        channel.close()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn

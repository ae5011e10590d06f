"""gRPC with kubelet over unix sockets: bounded messages, ready-made bytes, one kind of failure.

Both directions use it: calls to kubelet, and the servers that kubelet calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol, Stream
from h2.exceptions import H2Error

from agent.errors import KubeletUnavailableError

MAX_MESSAGE_BYTES = 4 * 2**20
"""What gRPC takes by default; the largest message of the device-plugin API stays below it."""

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


class BoundedConnection(H2Protocol):
    """An HTTP/2 connection on which no message may be longer than ``max_message_bytes``.

    The library has no limit of its own and would gather four GiB if the peer announced them.
    """

    max_message_bytes = MAX_MESSAGE_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put the bound on every stream of the connection."""
        super().connection_made(transport)
        create = self.connection.create_stream

        def create_bounded(**options: Any) -> Stream:  # noqa: ANN401 - the library's signature
            stream = create(**options)
            read = partial(_read_bounded, stream.recv_data, self.max_message_bytes)
            stream.recv_data = read  # type: ignore[method-assign]  # no other hook exists
            return stream

        self.connection.create_stream = create_bounded  # type: ignore[method-assign]


async def _read_bounded(
    read: Callable[[int], Awaitable[bytes]], max_bytes: int, size: int
) -> bytes:
    if size > max_bytes:
        raise GRPCError(
            Status.RESOURCE_EXHAUSTED, f"message of {size} bytes is over the limit of {max_bytes}"
        )
    return await read(size)


class _BoundedChannel(Channel):
    """A client connection with the bound of its caller."""

    def __init__(self, path: Path, max_reply_bytes: int) -> None:
        super().__init__(path=str(path), codec=WireCodec())
        self._max_reply_bytes = max_reply_bytes

    def _protocol_factory(self) -> H2Protocol:
        plain = super()._protocol_factory()
        bounded = BoundedConnection(plain.handler, plain.config, plain.h2_config)
        bounded.max_message_bytes = self._max_reply_bytes
        return bounded


async def ask(
    socket: Path,
    call: Callable[[Channel], Awaitable[ResultT]],
    *,
    deadline_s: float,
    max_reply_bytes: int = MAX_MESSAGE_BYTES,
) -> ResultT:
    """Dial ``socket``, make one call, hang up.

    Raises KubeletUnavailableError, and nothing else, whatever went wrong on the way: the socket
    missing or refusing, a hang-up at any moment, an error status, no answer in time.
    """
    channel = _BoundedChannel(socket, max_reply_bytes)
    try:
        async with asyncio.timeout(deadline_s):
            return await call(channel)
    except TimeoutError as error:
        raise KubeletUnavailableError(f"{socket}: no answer within {deadline_s:g} s") from error
    except GRPCError as error:
        text = f"{socket}: {error.status.name}: {error.message}"
        raise KubeletUnavailableError(text) from error
    except OSError as error:
        raise KubeletUnavailableError(f"{socket}: {error.strerror or error}") from error
    except (StreamTerminatedError, H2Error, AttributeError, AssertionError) as error:
        # The last two come from inside the library when the peer hangs up before the first
        # stream, or in the middle of a message.
        raise KubeletUnavailableError(f"{socket}: hung up") from error
    finally:
        channel.close()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn

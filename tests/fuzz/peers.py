"""Peers of a gRPC server that keep to no rule: bytes of chance, broken frames, half requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from pathlib import Path

import attrs
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import strategies as st

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
METHODS = (
    "/v1beta1.DevicePlugin/Allocate",
    "/v1beta1.DevicePlugin/ListAndWatch",
    "/v1beta1.DevicePlugin/GetPreferredAllocation",
    "/v1beta1.DevicePlugin/GetDevicePluginOptions",
    "/pluginregistration.Registration/GetInfo",
    "/agent.v1.Admin/Status",
    "/agent.v1.Admin/Explain",
    "/agent.v1.Admin/Watch",
    "/no.Such/Method",
    "",
)
_HEADERS = (
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
    (b"content-type", b"application/json"),
    (b"grpc-timeout", b"1n"),
    (b"grpc-timeout", b"\xff"),
    (b"grpc-encoding", b"gzip"),
    (b"x-bin", b"not base64!"),
    (b"x-long", b"x" * 20_000),
    (b":method", b"GET"),
    (b"Upper", b"\r\ninjected: 1"),
)


@attrs.frozen
class Attack:
    """What a peer sends, and how it goes away."""

    kind: str
    data: bytes
    method: str
    headers: tuple[tuple[bytes, bytes], ...]
    frames: tuple[tuple[int, int, int, bytes], ...]
    """(type, flags, stream, payload)."""
    announced: int
    """Length that stands before the message."""
    reads: bool
    ends: str


def _frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack("!I", size)[1:] + bytes((kind, flags)) + struct.pack("!I", stream) + payload


FRAMES = st.tuples(
    st.integers(0, 12),
    st.integers(0, 255),
    st.sampled_from((0, 1, 1, 2, 3, 2**31 - 1, 2**31 + 1)),
    st.one_of(
        st.binary(max_size=16),
        st.sampled_from((b"\xff" * 4, b"\x00" * 4, b"\x00\x04\xff\xff\xff\xff", b"\x82" * 3000)),
    ),
)
ATTACKS = st.builds(
    Attack,
    kind=st.sampled_from(("bytes", "preface", "frames", "frames", "request", "request")),
    data=st.one_of(
        st.binary(max_size=40),
        st.sampled_from((b"\x0a\x05\x0a\x03abc", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x0a")),
    ),
    method=st.sampled_from(METHODS),
    headers=st.lists(st.sampled_from(_HEADERS), max_size=4).map(
        lambda more: (_HEADERS[0], _HEADERS[1], *more)
    ),
    frames=st.lists(FRAMES, min_size=1, max_size=6).map(tuple),
    announced=st.sampled_from((0, 1, 7, 2**16, 2**22, 2**22 + 1, 2**32 - 1)),
    reads=st.booleans(),
    ends=st.sampled_from(("close", "half", "close unread")),
)


def request_of(attack: Attack) -> bytes:
    """A request whose message may be shorter or longer than it says."""
    connection = client()
    stream = connection.get_next_available_stream_id()
    names = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", attack.method.encode()))
    connection.send_headers(stream, (*names, (b":authority", b"x"), *attack.headers))
    message = struct.pack("!BI", attack.announced % 2, attack.announced) + attack.data
    connection.send_data(stream, message, end_stream=attack.announced != 7)
    return connection.data_to_send()


def client() -> H2Connection:
    """The client's half of HTTP/2, which lets everything pass."""
    config = H2Configuration(
        client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    connection = H2Connection(config)
    connection.initiate_connection()
    return connection


def bytes_of(attack: Attack) -> bytes:
    """Everything that the peer sends."""
    if attack.kind == "bytes":
        return attack.data
    if attack.kind == "preface":
        return PREFACE + attack.data
    frames = b"".join(_frame(*frame) for frame in attack.frames)
    if attack.kind == "frames":
        return PREFACE + SETTINGS + frames
    return request_of(attack) + frames


async def dial(path: Path) -> socket.socket:
    """A connection; a full backlog is waited for."""
    peer = socket.socket(socket.AF_UNIX)
    await asyncio.to_thread(peer.connect, str(path))
    peer.setblocking(False)
    return peer


async def make(attack: Attack, path: Path) -> None:
    """Carry it out, whatever the server does about it."""
    loop = asyncio.get_running_loop()
    with await dial(path) as peer, suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            await loop.sock_sendall(peer, bytes_of(attack))
            if attack.reads:
                await loop.sock_recv(peer, 65536)
            if attack.ends == "half":
                peer.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(peer, 65536):
                    pass

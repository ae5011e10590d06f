"""Plain netlink sockets: dumps, sockets that receive events, messages and attributes as bytes.

Only for the few dumps that a scan needs and for events that the kernel filters; link events have
their own adapter on pyroute2 (docs/adr/0003-route-dump.md says why there are two).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator

NETLINK_GENERIC = 16
NLM_F_REQUEST = 0x1
NLM_F_DUMP = 0x300
_NLM_F_DUMP_INTR = 0x10
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_SOL_NETLINK = 270
_NETLINK_GET_STRICT_CHK = 12
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_INT_SIZE = 4
_TYPE_MASK = 0x3FFF  # without the nested and byte-order flags
_SO_ATTACH_FILTER = 26  # uapi asm-generic/socket.h
_FILTER_STEP_SIZE = 8  # of struct sock_filter, uapi linux/filter.h
_RECEIVE_SIZE = 1 << 18
_TIMEOUT_S = 5.0


def request(message_type: int, payload: bytes, *, dump: bool) -> bytes:
    """A request with its header; kernels ignore the sequence number of a socket's only request."""
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    return _HEADER.pack(_HEADER.size + len(payload), message_type, flags, 1, 0) + payload


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute, padded to four bytes."""
    head = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind)
    return head + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) of each attribute in order; ends at the first truncated one."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > len(data):
            return
        yield kind & _TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def text(value: bytes) -> str:
    """A NUL-terminated string attribute."""
    return value.split(b"\0", 1)[0].decode(errors="replace")


def messages(datagram: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(type, flags, payload) of each message; ends at the first truncated one."""
    offset = 0
    while offset + _HEADER.size <= len(datagram):
        length, kind, flags, _sequence, _port = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size or offset + length > len(datagram):
            return
        yield kind, flags, datagram[offset + _HEADER.size : offset + length]
        offset += (length + 3) & ~3


def answer(protocol: int, question: bytes, *, strict: bool = False) -> Iterator[bytes]:
    """Send one request on a new socket, and yield the payloads of the kernel's reply in order.

    ``strict`` asks the kernel to honour the filters in the request's header (Linux 4.20).
    Raises InterruptedError at the end of a dump during which the table changed, so that entries may
    be missing, and other OSErrors if the kernel refuses, fails during the dump, or does not answer
    in time.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as sock:
        sock.settimeout(_TIMEOUT_S)
        if strict:
            sock.setsockopt(_SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)
        sock.bind((0, 0))
        sock.send(question)
        dumping = bool(_HEADER.unpack_from(question)[2] & NLM_F_DUMP)
        yield from payloads(_datagrams(sock), dumping=dumping)


def payloads(datagrams: Iterable[bytes], *, dumping: bool) -> Iterator[bytes]:
    """The payloads up to the end of a dump, or of the one datagram that answers another request."""
    interrupted = False
    for datagram in datagrams:
        for kind, flags, payload in messages(datagram):
            interrupted = interrupted or bool(flags & _NLM_F_DUMP_INTR)
            if kind == _NLMSG_DONE:
                if interrupted:
                    raise InterruptedError(errno.EINTR, "the table changed during the dump")
                _raise_error(payload)  # the dump failed in the middle
                return
            if kind == _NLMSG_ERROR:
                _raise_error(payload)
                return
            yield payload
        if not dumping:
            return


def _datagrams(sock: socket.socket) -> Iterator[bytes]:
    while True:
        yield sock.recv(_RECEIVE_SIZE)


def _raise_error(payload: bytes) -> None:
    """Raise the error number at the start of an NLMSG_ERROR, or of an NLMSG_DONE that has one."""
    code = struct.unpack_from("=i", payload)[0] if len(payload) >= _INT_SIZE else 0
    if code < 0:
        raise OSError(-code, os.strerror(-code))


def open_events(protocol: int, groups: int, program: bytes = b"") -> socket.socket:
    """A non-blocking socket that receives the messages of multicast ``groups`` (a mask).

    With ``program``, the kernel filters from the first message on. Raises OSError.
    """
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    opened = socket.socket(socket.AF_NETLINK, kind, protocol)
    try:
        if program:
            attach_filter(opened, program)
        opened.bind((0, groups))
    except OSError:
        opened.close()
        raise
    return opened


def attach_filter(opened: socket.socket, program: bytes) -> None:
    """Let the kernel drop the messages that a classic BPF ``program`` does not accept.

    Replaces an earlier filter. Raises OSError if the kernel refuses the program.
    """
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // _FILTER_STEP_SIZE, ctypes.addressof(steps))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)


def is_drained(opened: socket.socket) -> bool:
    """Whether the queue of a netlink socket is empty.

    The kernel reports lost messages once, then drops messages silently until the queue was empty
    (netlink_overrun() and netlink_rcv_wake() in net/netlink/af_netlink.c).
    """
    try:
        opened.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:  # the next overrun: reported here, the reader does not get it
        return False
    return False

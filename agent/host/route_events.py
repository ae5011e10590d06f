"""Tells when a default route comes or goes: the guard for functions in use by the host hangs on it.

Nodes change thousands of routes; only those of length 0 matter. A socket filter lets the kernel
drop the others, so that they cost nothing, which is why this is a plain socket.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import struct
from types import TracebackType
from typing import Self

_RTMGRP_IPV4_ROUTE = 0x40  # uapi linux/rtnetlink.h
_RTMGRP_IPV6_ROUTE = 0x400
_SO_ATTACH_FILTER = 26  # uapi asm-generic/socket.h
_RTM_DST_LEN_OFFSET = 17  # struct nlmsghdr is 16 bytes, rtm_dst_len the second byte of rtmsg
_ALL = 0xFFFFFFFF

# struct sock_filter (uapi linux/filter.h): code, jump if true, jump if false, operand
_PROGRAM = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (0x30, 0, 0, _RTM_DST_LEN_OFFSET),  # load the byte
        (0x15, 0, 1, 0),  # equal to 0: go on, else skip one
        (0x06, 0, 0, _ALL),  # keep the message
        (0x06, 0, 0, 0),  # drop it
    )
)


class DefaultRouteEvents:
    """A socket that wakes up when a default route changes; an async context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )

    async def __aenter__(self) -> Self:
        program = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
        steps = len(_PROGRAM) // 8
        filter_header = struct.pack("HP", steps, ctypes.addressof(program))
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_header)
            self._socket.bind((0, _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_ROUTE))
        except OSError:
            self._socket.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    async def changed(self) -> None:
        """Wait for a change (lost messages count as one). Raises OSError if the socket died."""
        try:
            await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise

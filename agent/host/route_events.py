"""Tells when a default route comes or goes: the guard for functions in use by the host hangs on it.

Nodes change thousands of routes; only those of length 0 matter. The kernel says nothing of IPv4
routes that end with the last address of their interface or with the interface set down, so both
are listened for as well. A socket filter lets the kernel drop everything else, so that it costs
nothing, which is why this is a plain socket.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import struct
import sys
from types import TracebackType
from typing import Self

from agent.host.uevents import is_drained

_RTMGRP_LINK = 0x1  # uapi linux/rtnetlink.h
_RTMGRP_IPV4_IFADDR = 0x10
_RTMGRP_IPV4_ROUTE = 0x40
_RTMGRP_IPV6_ROUTE = 0x400
_GROUPS = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_ROUTE
_RTM_NEWLINK = 16
_RTM_DELADDR = 21
_RTM_NEWROUTE = 24
_IFF_UP = 1
_SO_ATTACH_FILTER = 26  # uapi asm-generic/socket.h
# A socket filter loads words in network order, and netlink writes the host's: bytes are loaded.
_LOW_OF_16, _LOW_OF_32 = (0, 0) if sys.byteorder == "little" else (1, 3)
# All behind struct nlmsghdr, 16 bytes, but its own type.
_TYPE = 4 + _LOW_OF_16
_RTM_DST_LEN = 17  # of struct rtmsg
_IFINDEX = struct.Struct("=16x4xI")  # ifi_index of struct ifinfomsg and ifa_index of ifaddrmsg
_IFI_FLAGS = 24 + _LOW_OF_32
_IFI_CHANGE = 28 + _LOW_OF_32
_ALL = 0xFFFFFFFF
_LOAD, _EQUAL, _AT_LEAST, _SET, _RETURN = 0x30, 0x15, 0x35, 0x45, 0x06

# struct sock_filter (uapi linux/filter.h): code, steps to skip if true, if false, operand
_PROGRAM = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (_LOAD, 0, 0, _TYPE),
        (_EQUAL, 8, 0, _RTM_DELADDR),  # keep
        (_EQUAL, 3, 0, _RTM_NEWLINK),  # look at the flags
        (_AT_LEAST, 0, 7, _RTM_NEWROUTE),  # other news of links and addresses: drop
        (_LOAD, 0, 0, _RTM_DST_LEN),
        (_EQUAL, 4, 5, 0),  # a default route: keep, else drop
        (_LOAD, 0, 0, _IFI_CHANGE),
        (_SET, 0, 3, _IFF_UP),  # neither set up nor down: drop
        (_LOAD, 0, 0, _IFI_FLAGS),
        (_SET, 1, 0, _IFF_UP),  # set up: drop
        (_RETURN, 0, 0, _ALL),  # keep the message
        (_RETURN, 0, 0, 0),  # drop it
    )
)
_KEPT_OF_LINKS_AND_ADDRESSES = frozenset({_RTM_NEWLINK, _RTM_DELADDR})


class DefaultRouteEvents:
    """A socket that wakes up when a default route changes; an async context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        self._drops = False
        """Whether the kernel drops messages since it said so."""

    async def __aenter__(self) -> Self:
        program = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
        steps = len(_PROGRAM) // 8
        filter_header = struct.pack("HP", steps, ctypes.addressof(program))
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_header)
            self._socket.bind((0, _GROUPS))
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

    async def changed(self) -> int | None:
        """Wait for a change; lost messages count as one. Raises OSError if the socket died.

        They count once more when what was kept of them was read, since it goes on losing them in
        silence until then.

        None says that a default route changed; a number, that the interface with this index lost
        an IPv4 address or is set down, and its routes may be about to end.
        """
        if self._drops and is_drained(self._socket):
            self._drops = False
            return None
        try:
            message = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self._drops = True
            return None
        if message[_TYPE] not in _KEPT_OF_LINKS_AND_ADDRESSES:
            return None
        (ifindex,) = _IFINDEX.unpack_from(message)
        return int(ifindex)

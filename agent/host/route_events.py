"""Tells when the host begins or ends to use an interface: what the guard looks at has changed.

That is default routes, rules that may use another table of routes, addresses, and interfaces that
become ports of a bond, a bridge or the like. Nodes change thousands of routes and links; a socket
filter lets the kernel drop what says nothing of these, so that it costs nothing, which is why this
is a plain socket.

The kernel says nothing of IPv4 routes that end with the last address of their interface, or with
the interface set down, so both are listened for as well.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import struct
from collections.abc import Collection
from types import TracebackType
from typing import Self

from agent.attrs_classes import frozen
from agent.host import route_filter as kinds
from agent.host.netlink import attributes
from agent.host.uevents import is_drained

_RTMGRP_LINK = 0x1  # uapi linux/rtnetlink.h
_RTMGRP_IPV4_IFADDR = 0x10
_RTMGRP_IPV4_ROUTE = 0x40
_RTMGRP_IPV4_RULE = 0x80
_RTMGRP_IPV6_IFADDR = 0x100
_RTMGRP_IPV6_ROUTE = 0x400
_RTNLGRP_IPV6_RULE_MASK = 1 << 18  # of group 19, which has no mask of its own in the header
_GROUPS = (
    _RTMGRP_LINK
    | _RTMGRP_IPV4_IFADDR
    | _RTMGRP_IPV4_ROUTE
    | _RTMGRP_IPV4_RULE
    | _RTMGRP_IPV6_IFADDR
    | _RTMGRP_IPV6_ROUTE
    | _RTNLGRP_IPV6_RULE_MASK
)
_SO_ATTACH_FILTER = 26  # uapi asm-generic/socket.h
_RECEIVE_BYTES = 1 << 16
_HEADER = struct.Struct("=4xH10x4xiII")  # type of nlmsghdr; index, flags, change of ifinfomsg
_ADDRESS_INDEX = struct.Struct("=16x4xI")  # ifa_index of ifaddrmsg
_ATTRIBUTES_AT = 32  # behind nlmsghdr and ifinfomsg
_IFLA_IFNAME, _IFLA_MASTER = 3, 10
_NUMBER = struct.Struct("=I")


@frozen
class AddressChange:
    """An interface got or lost an address."""

    ifindex: int


@frozen
class LinkChange:
    """An interface was set down, or is a port of another one, or a watched one changed."""

    ifindex: int
    name: str
    is_down: bool
    """It was set down just now: its IPv4 routes end, of which the kernel says nothing."""
    master: int | None
    """Ifindex of the bond, bridge, team or OVS datapath that it is a port of."""


Change = AddressChange | LinkChange | None
"""None = a default route, a rule, or a route of a watched interface came or went."""


class DefaultRouteEvents:
    """A socket that wakes up when the host's use of an interface may change.

    An async context manager.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        self._drops = False
        """Whether the kernel drops messages since it said so."""

    async def __aenter__(self) -> Self:
        try:
            self.watch((), ())
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

    def watch(self, addressed: Collection[int], stacked: Collection[int]) -> None:
        """Let through more of some interfaces, which are given by ifindex.

        That is every route of the ``addressed`` ones, and every change of the ``stacked`` ones,
        which may leave what they are part of. A kernel that has no memory for so many names lets
        through those of every interface. Raises OSError where it takes no filter at all.
        """
        try:
            self._attach(kinds.program(addressed, stacked))
        except OSError:
            if not addressed and not stacked:
                raise
            self._attach(kinds.program(None, None))

    def _attach(self, steps: bytes) -> None:
        program = ctypes.create_string_buffer(steps, len(steps))
        header = struct.pack("HP", len(steps) // kinds.STEP_SIZE, ctypes.addressof(program))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)

    async def changed(self) -> Change:
        """Wait for a change; lost messages count as one. Raises OSError if the socket died.

        They count once more when what was kept of them was read, since it goes on losing them in
        silence until then.
        """
        if self._drops and is_drained(self._socket):
            self._drops = False
            return None
        try:
            message = await asyncio.get_running_loop().sock_recv(self._socket, _RECEIVE_BYTES)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self._drops = True
            return None
        return _change(message)


def _change(message: bytes) -> Change:
    kind, ifindex, flags, changed = _HEADER.unpack_from(message)
    if kind in {kinds.RTM_NEWADDR, kinds.RTM_DELADDR}:
        return AddressChange(_ADDRESS_INDEX.unpack_from(message)[0])
    if kind != kinds.RTM_NEWLINK:
        return None
    values = dict(attributes(message[_ATTRIBUTES_AT:]))
    master = values.get(_IFLA_MASTER)
    return LinkChange(
        ifindex=ifindex,
        name=values.get(_IFLA_IFNAME, b"").split(b"\0", 1)[0].decode(errors="surrogateescape"),
        is_down=bool(changed & kinds.IFF_UP and not flags & kinds.IFF_UP),
        master=None if master is None else _NUMBER.unpack(master)[0],
    )

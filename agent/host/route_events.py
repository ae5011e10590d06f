"""Reports when the host starts or stops using an interface: facts of the guard have changed.

These are default routes, rules that may use another routing table, addresses, and interfaces that
become ports of a bond, a bridge or similar. Nodes change thousands of routes and links. This is a
plain socket with a filter, so that the kernel drops all other messages and they cost nothing.

The kernel does not report IPv4 routes that end with the last address of their interface, or when
the interface is set down, so the socket receives both as well.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Collection
from typing import Self

from agent.attrs_classes import frozen
from agent.host import route_filter as filters
from agent.host.netlink import attach_filter, attributes, is_drained, open_events

_RTNLGRP_LINK = 1  # uapi linux/rtnetlink.h, enum rtnetlink_groups
_RTNLGRP_IPV4_IFADDR, _RTNLGRP_IPV4_ROUTE, _RTNLGRP_IPV4_RULE = 5, 7, 8
_RTNLGRP_IPV6_IFADDR, _RTNLGRP_IPV6_ROUTE, _RTNLGRP_IPV6_RULE = 9, 11, 19
_GROUPS = sum(
    1 << (group - 1)
    for group in (
        _RTNLGRP_LINK,
        *(_RTNLGRP_IPV4_IFADDR, _RTNLGRP_IPV4_ROUTE, _RTNLGRP_IPV4_RULE),
        *(_RTNLGRP_IPV6_IFADDR, _RTNLGRP_IPV6_ROUTE, _RTNLGRP_IPV6_RULE),
    )
)
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
    """An interface was set down, or is a port of another one, or a watched interface changed."""

    ifindex: int
    name: str
    is_down: bool
    """It was set down just now: its IPv4 routes end, which the kernel does not report."""
    master: int | None
    """Ifindex of the bond, bridge, team or OVS datapath that it is a port of."""


Change = AddressChange | LinkChange | None
"""None = a default route, a rule, or a route of a watched interface came or went."""


class DefaultRouteEvents:
    """A socket that wakes up when the host's use of an interface may change.

    An async context manager.
    """

    def __init__(self) -> None:
        """Raises OSError if the kernel allows no socket or no filter."""
        self._socket = open_events(socket.NETLINK_ROUTE, _GROUPS, filters.program((), ()))
        self._drops = False
        """Whether the kernel may drop messages without reporting it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()

    def watch(self, addressed: Collection[int], stacked: Collection[int]) -> None:
        """Accept more messages of some interfaces, given by ifindex.

        These are every route of the ``addressed`` ones, and every change of the ``stacked`` ones,
        which may leave their master. If the kernel has no memory for the list, the messages of all
        interfaces are accepted. Raises OSError if the kernel refuses any filter.
        """
        try:
            attach_filter(self._socket, filters.program(addressed, stacked))
        except OSError:
            if not addressed and not stacked:
                raise
            attach_filter(self._socket, filters.program(None, None))

    async def changed(self) -> Change:
        """Wait for a change; lost messages count as one. Raises OSError if the socket fails.

        They count once more after the queue was read, because until then the kernel drops messages
        without reporting it.
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
    if kind in {filters.RTM_NEWADDR, filters.RTM_DELADDR}:
        return AddressChange(_ADDRESS_INDEX.unpack_from(message)[0])
    if kind != filters.RTM_NEWLINK:
        return None
    values = dict(attributes(message[_ATTRIBUTES_AT:]))
    master = values.get(_IFLA_MASTER)
    return LinkChange(
        ifindex=ifindex,
        name=values.get(_IFLA_IFNAME, b"").split(b"\0", 1)[0].decode(errors="surrogateescape"),
        is_down=bool(changed & filters.IFF_UP and not flags & filters.IFF_UP),
        master=None if master is None else _NUMBER.unpack(master)[0],
    )

"""Interfaces with an address and a route of the host's own: the host uses them for traffic.

Link-local addresses (169.254.0.0/16, fe80::/10) do not count, since each interface that is up has
one. Addresses with a lifetime do not count either: a DHCP server or a router assigns them to any
interface that is up, without anybody having configured it. An address without a route does not
count: the host sends nothing through it.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Collection, Container, Iterable, Iterator

from agent.attrs_classes import frozen
from agent.host import netlink as wire
from agent.host import sysfs

_RTM_GETADDR = 22
_RTM_GETROUTE = 26
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, ifindex
_RTMSG = struct.Struct("=BBBBBBBBI")
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_PERMANENT = 0x80  # uapi linux/if_addr.h
_SCOPE_LINK = 253  # uapi linux/rtnetlink.h; numbers above are narrower still
_RTN_UNICAST = 1
_RTA_DST, _RTA_OIF, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 9, 15
_RTNEXTHOP = struct.Struct("=HBBi")
_ATTEMPTS = 5
_ASKED_ONE_BY_ONE = 16
"""Up to this many interfaces, one dump is made for each, so that the kernel sends only theirs."""
_RTF_UP, _RTF_REJECT, _RTF_LOCAL = 0x1, 0x200, 0x80000000
_FIELDS_OF_IF_INET6 = 6


@frozen
class OwnRoutes:
    """Names of interfaces, sorted."""

    addressed: tuple[str, ...] = ()
    """Those with a lasting address that is not link-local."""
    routed: tuple[str, ...] = ()
    """Those of them that have a route which is not link-local."""


def from_kernel(interfaces: Container[str], tables: Collection[int]) -> OwnRoutes:
    """Ask the kernel about some interfaces of this network namespace, in the routing ``tables``.

    A dump that a change interrupted is repeated. Raises OSError if the kernel refuses, or if the
    tables still change after the last attempt.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _dumped(interfaces, tables)
        except InterruptedError:
            if attempt == _ATTEMPTS - 1:
                raise
    return OwnRoutes()


def _dumped(interfaces: Container[str], tables: Collection[int]) -> OwnRoutes:
    addressed = {}
    for ifindex in sorted(_addressed()):
        name = name_of(ifindex)
        if name in interfaces:
            addressed[ifindex] = name
    routed = _routed(addressed, tables)
    return OwnRoutes(
        tuple(sorted(addressed.values())),
        tuple(sorted(name for ifindex, name in addressed.items() if ifindex in routed)),
    )


def name_of(ifindex: int) -> str:
    """The name of an interface of this network namespace; empty if it no longer exists."""
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return ""


def _addressed() -> set[int]:
    ifindexes: set[int] = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        question = wire.request(_RTM_GETADDR, _IFADDRMSG.pack(family, 0, 0, 0, 0), dump=True)
        for message in wire.answer(socket.NETLINK_ROUTE, question):
            ifindex = owner_of_address(message)
            if ifindex is not None:
                ifindexes.add(ifindex)
    return ifindexes


def owner_of_address(message: bytes) -> int | None:
    """The interface of an address (struct ifaddrmsg); None if the address does not count."""
    if len(message) < _IFADDRMSG.size:
        return None
    _family, _length, flags, scope, ifindex = _IFADDRMSG.unpack_from(message)
    if scope >= _SCOPE_LINK or not flags & _IFA_F_PERMANENT:
        return None
    values = dict(wire.attributes(message[_IFADDRMSG.size :]))
    address = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS, b"")
    return None if is_link_local(address) else int(ifindex)


def is_link_local(address: bytes) -> bool:
    """Whether an address or a prefix is 169.254.0.0/16, fe80::/10 or multicast."""
    if len(address) == 4:
        return address[:2] == b"\xa9\xfe" or address[0] >= 0xE0
    return address[:1] == b"\xff" or (address[:1] == b"\xfe" and address[1] & 0xC0 == 0x80)


def _routed(ifindexes: Collection[int], tables: Collection[int]) -> set[int]:
    """Those of the interfaces that have a route which is not link-local."""
    routed: set[int] = set()
    filters: Iterable[int | None] = ifindexes if len(ifindexes) <= _ASKED_ONE_BY_ONE else (None,)
    for ifindex in filters:
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in wire.answer(
                socket.NETLINK_ROUTE, _route_question(family, ifindex), strict=True
            ):
                routed.update(legs(message, tables))
    return routed.intersection(ifindexes)


def _route_question(family: int, ifindex: int | None) -> bytes:
    header = _RTMSG.pack(family, 0, 0, 0, 0, 0, 0, _RTN_UNICAST, 0)
    if ifindex is not None:
        header += wire.attribute(_RTA_OIF, struct.pack("=I", ifindex))
    return wire.request(_RTM_GETROUTE, header, dump=True)


def legs(route: bytes, tables: Collection[int]) -> Iterator[int]:
    """The output interfaces of a route, if it counts and is in one of the tables."""
    if len(route) < _RTMSG.size:
        return
    _family, _len, _src, _tos, table, _protocol, _scope, kind, _flags = _RTMSG.unpack_from(route)
    values = dict(wire.attributes(route[_RTMSG.size :]))
    if _RTA_TABLE in values:
        table = _number(values[_RTA_TABLE])
    if (
        kind != _RTN_UNICAST
        or table not in tables
        or is_link_local(values.get(_RTA_DST, b"\0" * 4))
    ):
        return
    if _RTA_OIF in values:
        yield _number(values[_RTA_OIF])
    yield from multipath(values.get(_RTA_MULTIPATH, b""))


def multipath(value: bytes) -> Iterator[int]:
    """The interfaces of the nexthops in an RTA_MULTIPATH (struct rtnexthop)."""
    offset = 0
    while offset + _RTNEXTHOP.size <= len(value):
        length, _flags, _hops, ifindex = _RTNEXTHOP.unpack_from(value, offset)
        yield ifindex
        offset += max((length + 3) & ~3, _RTNEXTHOP.size)


def _number(value: bytes) -> int:
    return int.from_bytes(value[:4], sys.byteorder)


def from_procfs(proc: int, interfaces: Container[str]) -> OwnRoutes:
    """The same from ``net/route``, ``net/ipv6_route`` and ``net/if_inet6`` below a procfs.

    No file there says which interface has an IPv4 address: a route counts as one, since the
    kernel adds a route with each address.
    """
    ipv4 = {n for n in _ipv4_routed(_lines(proc, "net/route")) if n in interfaces}
    lasting = {n for n in _ipv6_addressed(_lines(proc, "net/if_inet6")) if n in interfaces}
    ipv6 = lasting and lasting.intersection(_ipv6_routed(_lines(proc, "net/ipv6_route")))
    return OwnRoutes(tuple(sorted(ipv4 | lasting)), tuple(sorted(ipv4 | ipv6)))


def _lines(proc: int, name: str) -> Iterator[list[str]]:
    raw = sysfs.read_all(proc, name)
    return (line.split() for line in raw.decode(errors="replace").splitlines())


def _ipv4_routed(lines: Iterable[list[str]]) -> Iterator[str]:
    """Fields: Iface Destination Gateway Flags ...; numbers in host byte order, in hex."""
    for fields in lines:
        if len(fields) < 8:
            continue
        destination, flags = _hex(fields[1]), _hex(fields[3])
        if destination is None or flags is None or flags & (_RTF_UP | _RTF_REJECT) != _RTF_UP:
            continue
        if not is_link_local(destination.to_bytes(4, sys.byteorder)):
            yield fields[0]


def _ipv6_addressed(lines: Iterable[list[str]]) -> Iterator[str]:
    """Fields: address, index, prefix length, scope, flags, interface; hex."""
    for fields in lines:
        if len(fields) != _FIELDS_OF_IF_INET6:
            continue
        flags, address = _hex(fields[4]), _address(fields[0])
        if flags is not None and flags & _IFA_F_PERMANENT and not is_link_local(address):
            yield fields[5]


def _ipv6_routed(lines: Iterable[list[str]]) -> Iterator[str]:
    """Fields: destination, its length, source, its length, gateway, metric, 2 counts, flags, if."""
    for fields in lines:
        if len(fields) < 10:
            continue
        flags = _hex(fields[8])
        if flags is None or flags & (_RTF_UP | _RTF_REJECT | _RTF_LOCAL) != _RTF_UP:
            continue
        if not is_link_local(_address(fields[0])):
            yield fields[9]


def _hex(text: str) -> int | None:
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return number if 0 <= number <= 0xFFFFFFFF else None


def _address(text: str) -> bytes:
    """Sixteen bytes; invalid text becomes a link-local address, which does not count."""
    try:
        address = bytes.fromhex(text)
    except ValueError:
        address = b""
    return address if len(address) == 16 else b"\xfe\x80" + bytes(14)

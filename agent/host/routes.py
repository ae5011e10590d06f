"""The output interfaces of default routes: the host needs them to stay reachable.

Read by route dumps, or from procfs if netlink is off. The main table counts, and each other table
that a rule looks up. The table of a VRF does not count: its members have a master, which counts.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from agent.attrs_classes import frozen
from agent.host import netlink as wire
from agent.host import sysfs
from agent.host.addresses import multipath
from agent.host.route_rules import MAIN_TABLE

_RTM_GETROUTE = 26
_RTM_GETNEXTHOP = 106
_RTN_UNICAST = 1
_RTA_OIF = 4
_RTA_MULTIPATH = 9
_RTA_TABLE = 15
_RTA_NH_ID = 30
_NHA_ID = 1
_NHA_GROUP = 2
_NHA_OIF = 5
_RTMSG = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type
_DUMP_REQUEST = struct.Struct("=B11x")  # the same with a family and no filter
_NHMSG = struct.Struct("=BBBBI")
_NEXTHOP_GROUP = struct.Struct("=IBBH")  # id, weight, weight's high byte, reserved
_RTF_UP = 0x1
_RTF_REJECT = 0x200
_LOOPBACK = "lo"
_NO_INTERFACE = "*"  # how IPv4's table writes a black hole
_ATTEMPTS = 5
_ASKED_ONE_BY_ONE = 8
"""Up to this many tables, one dump is made per table, so that the kernel sends no other routes."""
_MAIN_ONLY = frozenset({MAIN_TABLE})


@frozen
class Nexthop:
    """A nexthop object (``ip nexthop``): an interface, or a group of other objects."""

    ifindex: int | None = None
    group: tuple[int, ...] = ()


def from_procfs(proc: int) -> tuple[str, ...]:
    """Names, sorted, from ``net/route`` and ``net/ipv6_route`` below a procfs.

    The IPv4 file has only the first hop of a multipath route, which is why the dump is preferred.
    """
    names = {*_ipv4_lines(_lines(proc, "net/route")), *_ipv6_lines(_lines(proc, "net/ipv6_route"))}
    return tuple(sorted(names - {_LOOPBACK, _NO_INTERFACE}))


def from_kernel(tables: Collection[int] = _MAIN_ONLY) -> tuple[str, ...]:
    """Names, sorted, by route dumps of this network namespace and the tables in use.

    A dump that a change interrupted is repeated. Raises OSError if the kernel refuses, or if the
    table still changes after the last attempt.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(InterruptedError):
            return _default_route_names(tables)
    return _default_route_names(tables)


def _default_route_names(tables: Collection[int]) -> tuple[str, ...]:
    names = set(_names(_dumped_ifindexes(tables)))
    return tuple(sorted(names - {_LOOPBACK}))


def _dumped_ifindexes(tables: Collection[int]) -> set[int]:
    nexthops: Mapping[int, Nexthop] | None = None
    dumped: set[int] = set()
    for question in _questions(tables):
        for route in _routes(question):
            ifindexes, nexthop_id = default_route_legs(route, tables)
            dumped.update(ifindexes)
            if nexthop_id is not None and not ifindexes:
                nexthops = _nexthops() if nexthops is None else nexthops
                dumped.update(resolve(nexthop_id, nexthops))
    return dumped


def _questions(tables: Collection[int]) -> Iterator[bytes]:
    """A dump of each table and family; of all tables at once if there are many."""
    few = sorted(tables) if len(tables) <= _ASKED_ONE_BY_ONE else [0]
    for family in (socket.AF_INET, socket.AF_INET6):
        for table in few:
            header = _DUMP_REQUEST.pack(family)
            if table:
                header += wire.attribute(_RTA_TABLE, struct.pack("=I", table))
            yield wire.request(_RTM_GETROUTE, header, dump=True)


def _routes(question: bytes) -> Iterator[bytes]:
    """A dump of one table; the kernel creates a table with its first route."""
    with suppress(FileNotFoundError):
        yield from wire.answer(socket.NETLINK_ROUTE, question, strict=True)


def default_route_legs(
    route: bytes, tables: Collection[int] = _MAIN_ONLY
) -> tuple[tuple[int, ...], int | None]:
    """(interface indexes, nexthop object) of a default route; neither for any other route.

    A default route has destination length 0, with or without RTA_DST, is unicast (not unreachable
    or a black hole) and in one of the tables. Legs are RTA_OIF or the nexthops of RTA_MULTIPATH.
    """
    if len(route) < _RTMSG.size:
        return (), None
    _family, dst_len, _src, _tos, table, _protocol, _scope, kind, _flags = _RTMSG.unpack_from(route)
    if dst_len or kind != _RTN_UNICAST:
        return (), None
    ifindexes: list[int] = []
    nexthop_id = None
    for attribute, value in wire.attributes(route[_RTMSG.size :]):
        if attribute == _RTA_TABLE:
            table = _u32(value)
        elif attribute == _RTA_OIF:
            ifindexes.append(_u32(value))
        elif attribute == _RTA_MULTIPATH:
            ifindexes.extend(multipath(value))
        elif attribute == _RTA_NH_ID:
            nexthop_id = _u32(value)
    return (tuple(ifindexes), nexthop_id) if table in tables else ((), None)


def parse_nexthop(message: bytes) -> tuple[int, Nexthop]:
    """(id, object) of one RTM_NEWNEXTHOP."""
    fields = dict(wire.attributes(message[_NHMSG.size :]))
    oif = fields.get(_NHA_OIF)
    group = fields.get(_NHA_GROUP, b"")
    members = _NEXTHOP_GROUP.iter_unpack(group[: len(group) - len(group) % _NEXTHOP_GROUP.size])
    return _u32(fields.get(_NHA_ID, b"")), Nexthop(
        ifindex=_u32(oif) if oif is not None else None,
        group=tuple(member[0] for member in members),
    )


def resolve(nexthop_id: int, nexthops: Mapping[int, Nexthop]) -> tuple[int, ...]:
    """The interface indexes of an object: its own, or its group's (groups do not nest)."""
    nexthop = nexthops.get(nexthop_id, Nexthop())
    members = (nexthops.get(member, Nexthop()) for member in nexthop.group)
    return tuple(n.ifindex for n in (nexthop, *members) if n.ifindex is not None)


def _nexthops() -> Mapping[int, Nexthop]:
    question = wire.request(_RTM_GETNEXTHOP, bytes(_NHMSG.size), dump=True)
    return dict(map(parse_nexthop, wire.answer(socket.NETLINK_ROUTE, question)))


def _u32(value: bytes) -> int:
    return int.from_bytes(value[:4], sys.byteorder)


def _names(ifindexes: Iterable[int]) -> Iterator[str]:
    for ifindex in ifindexes:
        try:
            yield socket.if_indextoname(ifindex)
        except OSError:  # gone since the dump
            continue


def _lines(proc: int, name: str) -> Iterator[list[str]]:
    """The lines of a procfs table, split; such files may be larger than a page."""
    raw = sysfs.read_all(proc, name)
    return (line.split() for line in raw.decode(errors="replace").splitlines())


def _ipv4_lines(lines: Iterable[list[str]]) -> Iterator[str]:
    """Fields: Iface Destination Gateway Flags RefCnt Use Metric Mask; hex, main table only."""
    for fields in lines:
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000" and _is_up(fields[3]):
            yield fields[0]


def _ipv6_lines(lines: Iterable[list[str]]) -> Iterator[str]:
    """Fields: destination, its length, source, its length, gateway, metric, 2 counts, flags, if."""
    for fields in lines:
        if len(fields) >= 10 and fields[1] == "00" and _is_up(fields[8]):
            yield fields[9]


def _is_up(flags: str) -> bool:
    try:
        return int(flags, 16) & (_RTF_UP | _RTF_REJECT) == _RTF_UP
    except ValueError:
        return False

"""Which routing tables the host's rules use: default routes in other tables have no effect.

Rules are those of ``ip rule`` and ``ip -6 rule`` (uapi linux/fib_rules.h).
"""

from __future__ import annotations

import socket
import struct
import sys

from agent.host import netlink as wire

MAIN_TABLE = 254
_LOCAL_TABLE = 255
"""The host's own addresses and broadcasts: never a default route."""
_RTM_GETRULE = 34
_RULE = struct.Struct("=7xBI")  # fib_rule_hdr: family to res2, then action and flags
_TABLE_AT = 4
_TO_TABLE = 1
_FRA_SUPPRESS_PREFIXLEN = 14
_FRA_TABLE = 15
_NOT_SUPPRESSED = 0xFFFFFFFF


def tables_in_use() -> frozenset[int]:
    """The tables that some rule of IPv4 or IPv6 looks up; always the main table.

    Raises OSError if the kernel does not answer the dump.
    """
    tables = {MAIN_TABLE}
    for family in (socket.AF_INET, socket.AF_INET6):
        question = wire.request(_RTM_GETRULE, bytes((family,)) + bytes(11), dump=True)
        tables.update(map(table_of, wire.answer(socket.NETLINK_ROUTE, question)))
    return frozenset(tables) - {0, _LOCAL_TABLE}


def table_of(rule: bytes) -> int:
    """The table of one rule; 0 where a default route in it would not be used.

    Such a rule has another action than a table lookup (unreachable, goto), takes the table from
    the VRF of the packet, or ignores short prefixes (``suppress_prefixlength``).
    """
    if len(rule) < _RULE.size:
        return 0
    action, _flags = _RULE.unpack_from(rule)
    values = dict(wire.attributes(rule[_RULE.size :]))
    suppressed = values.get(_FRA_SUPPRESS_PREFIXLEN)
    if action != _TO_TABLE or (suppressed and _number(suppressed) != _NOT_SUPPRESSED):
        return 0
    table = values.get(_FRA_TABLE)
    return _number(table) if table else rule[_TABLE_AT]


def _number(value: bytes) -> int:
    return int.from_bytes(value[:4], sys.byteorder)

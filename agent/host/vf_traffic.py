"""What VFs have carried, as their PF's driver counts it: one question to the kernel for each PF.

On a plain socket and with our own reading of the answer, since an answer about 256 VFs is 70 KB of
nested attributes of which eight numbers a VF are wanted.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from agent.host.netlink_wire import answer, attribute, attributes, request
from agent.model.snapshot import Snapshot
from agent.model.traffic import Traffic, VfTraffic

# uapi linux/rtnetlink.h and linux/if_link.h
_RTM_GETLINK = 18
_IFINFOMSG = struct.Struct("=BxHiII")  # family, ARPHRD type, index, flags, change
_IFLA_VFINFO_LIST = 22
_IFLA_EXT_MASK = 29
_RTEXT_FILTER_VF = 1
_IFLA_VF_INFO = 1
_IFLA_VF_MAC = 1
_IFLA_VF_STATS = 8
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF
_NAMES = {
    0: "rx_packets",
    1: "tx_packets",
    2: "rx_bytes",
    3: "tx_bytes",
    4: "rx_broadcast",
    5: "rx_multicast",
    7: "rx_dropped",
    8: "tx_dropped",
}


def traffic_of_host(snapshot: Snapshot) -> Traffic:
    """What the VFs of each PF have carried; a PF that tells nothing is left out. For a thread."""
    found: dict[str, Mapping[int, VfTraffic]] = {}
    for pf in snapshot.pfs.values():
        netdev = snapshot.pf_netdev(pf) if pf.num_vfs else None
        if netdev is not None and netdev.ifindex is not None:
            with suppress(OSError):
                found[pf.id] = read_traffic(netdev.ifindex)
    return found


def read_traffic(ifindex: int) -> Mapping[int, VfTraffic]:
    """VF index -> counters, of the PF that has this netdev. Raises OSError."""
    payload = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    payload += attribute(_IFLA_EXT_MASK, struct.pack("=I", _RTEXT_FILTER_VF))
    question = request(_RTM_GETLINK, payload, dump=False)
    found: dict[int, VfTraffic] = {}
    for message in answer(socket.NETLINK_ROUTE, question):
        found |= traffic_of(message[_IFINFOMSG.size :])
    return found


def traffic_of(data: bytes) -> Mapping[int, VfTraffic]:
    """The counters in the attributes of a link message; VFs without counters are left out."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if kind & _TYPE_MASK == _IFLA_VFINFO_LIST:
            # Its length has 16 bits and wraps on a PF with many VFs, so it is not trusted: the
            # list goes on as long as entries follow.
            return dict(_vfs(data, offset + _ATTRIBUTE.size))
        if length < _ATTRIBUTE.size:
            break
        offset += (length + 3) & ~3
    return {}


def _vfs(data: bytes, offset: int) -> Iterator[tuple[int, VfTraffic]]:
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if kind & _TYPE_MASK != _IFLA_VF_INFO or length < _ATTRIBUTE.size:
            return
        entry = dict(attributes(data[offset + _ATTRIBUTE.size : offset + length]))
        if len(entry.get(_IFLA_VF_MAC, b"")) < 4:  # it begins with the VF's number
            return
        if stats := entry.get(_IFLA_VF_STATS):
            yield int.from_bytes(entry[_IFLA_VF_MAC][:4], sys.byteorder), _counters(stats)
        offset += (length + 3) & ~3


def _counters(stats: bytes) -> VfTraffic:
    numbers = {
        _NAMES[kind]: int.from_bytes(value, sys.byteorder)
        for kind, value in attributes(stats)
        if kind in _NAMES
    }
    return VfTraffic(**numbers)

"""Traffic counters of VFs: those of the PF's driver, or else those of the VFs' own interfaces.

One request to the kernel for each PF, on a plain socket and with our own decoder, since a reply
about 256 VFs is 70 KB of nested attributes, of which eight numbers per VF are needed. The kernel
fills in zeros if the driver counts nothing (no ndo_get_vf_stats, as with igb). For such PFs, one
dump of all interfaces' counters has those of the VFs whose interfaces are in this namespace.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from agent.host.netlink import answer, attribute, attributes, request
from agent.model.device import Device, Role
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
_RTM_GETSTATS = 94  # Linux 4.7
_IF_STATS_MSG = struct.Struct("=B3xII")  # family, index, wanted
_WANTED = 1  # IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)
_IFLA_STATS_LINK_64 = 1
# struct rtnl_link_stats64 up to the last counter needed: packets, bytes, errors and drops, each
# received and sent; then multicast packets received.
_LINK_STATS = struct.Struct("=9Q")
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
    """The traffic of the VFs of each PF. Blocks: to be called in a thread.

    A PF without counters, or with only zeros, is ignored: the counters of its VFs' own interfaces
    are used. VFs without an interface here (in a pod, or with vfio) are left out, since a zero
    after other numbers would look like a reset counter.
    """
    by_pf: dict[str, Mapping[int, VfTraffic]] = {}
    for pf in snapshot.pfs.values():
        netdev = snapshot.pf_netdev(pf) if pf.num_vfs else None
        if netdev is not None and netdev.ifindex is not None:
            with suppress(OSError):
                counters = read_traffic(netdev.ifindex)
                if any(map(_has_counted, counters.values())):
                    by_pf[pf.id] = counters
    others = [vf for vf in snapshot.devices if vf.role is Role.VF and vf.pf_address not in by_pf]
    return {**by_pf, **_by_interfaces(others)}


def _by_interfaces(vfs: Iterable[Device]) -> Traffic:
    """The traffic of these VFs' interfaces, by one dump if any of them is here."""
    here = [
        (vf.pf_address, vf.index, vf.netdev.ifindex)
        for vf in vfs
        if vf.netdev is not None and vf.netdev.ifindex is not None
    ]
    by_pf: dict[str, dict[int, VfTraffic]] = {}
    with suppress(OSError):
        interfaces = read_interfaces() if here else {}
        for pf, index, ifindex in here:
            if pf is not None and index is not None and ifindex in interfaces:
                by_pf.setdefault(pf, {})[index] = interfaces[ifindex]
    return by_pf


def read_interfaces() -> Mapping[int, VfTraffic]:
    """Index of each interface of this network namespace -> its traffic. Raises OSError.

    An interface that appears or goes during the dump may be missing.
    """
    payload = _IF_STATS_MSG.pack(socket.AF_UNSPEC, 0, _WANTED)
    answers = answer(socket.NETLINK_ROUTE, request(_RTM_GETSTATS, payload, dump=True))
    traffic: dict[int, VfTraffic] = {}
    with suppress(InterruptedError):
        traffic.update(interface_traffic(answers))
    return traffic


def interface_traffic(messages: Iterable[bytes]) -> Iterator[tuple[int, VfTraffic]]:
    """Index and counters of each interface, from the payloads of an RTM_GETSTATS dump."""
    for message in messages:
        if len(message) < _IF_STATS_MSG.size:
            continue
        _family, ifindex, _wanted = _IF_STATS_MSG.unpack_from(message)
        stats = dict(attributes(message[_IF_STATS_MSG.size :])).get(_IFLA_STATS_LINK_64, b"")
        if len(stats) >= _LINK_STATS.size:
            rx, tx, rx_bytes, tx_bytes, _, _, rx_dropped, tx_dropped, multicast = (
                _LINK_STATS.unpack_from(stats)
            )
            yield (
                ifindex,
                VfTraffic(rx, tx, rx_bytes, tx_bytes, None, multicast, rx_dropped, tx_dropped),
            )


def read_traffic(ifindex: int) -> Mapping[int, VfTraffic]:
    """VF index -> counters, of the PF that has this netdev. Raises OSError."""
    payload = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    payload += attribute(_IFLA_EXT_MASK, struct.pack("=I", _RTEXT_FILTER_VF))
    question = request(_RTM_GETLINK, payload, dump=False)
    traffic: dict[int, VfTraffic] = {}
    for message in answer(socket.NETLINK_ROUTE, question):
        traffic |= traffic_of(message[_IFINFOMSG.size :])
    return traffic


def traffic_of(data: bytes) -> Mapping[int, VfTraffic]:
    """The counters in the attributes of a link message; VFs without counters are left out."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if kind & _TYPE_MASK == _IFLA_VFINFO_LIST:
            # The length has 16 bits and wraps on a PF with many VFs, so it is not used: the list
            # continues as long as entries follow.
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
        if len(entry.get(_IFLA_VF_MAC, b"")) < 4:  # the value starts with the VF's number
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


def _has_counted(traffic: VfTraffic) -> bool:
    return traffic != VfTraffic()

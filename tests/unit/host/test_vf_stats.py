from __future__ import annotations

import socket
import struct

import pytest

from agent.host.netlink import attribute
from agent.host.vf_stats import (
    interface_traffic,
    read_interfaces,
    read_traffic,
    traffic_of,
    traffic_of_host,
)
from agent.model.device import Netdev
from agent.model.traffic import VfTraffic
from tests.support.devices import host, pf, vf
from tests.support.inside import in_own_network, ip, needs_root

_IFLA_IFNAME, _IFLA_VFINFO_LIST, _IFLA_NEXT = 3, 22, 24
_NESTED = 0x8000


def entry(vf: int, counters: dict[int, int] | None) -> bytes:
    """One IFLA_VF_INFO as kernels make it: number and address, rates, counters."""
    content = attribute(1, struct.pack("=I", vf) + bytes(32))
    content += attribute(6, struct.pack("=III", vf, 0, 0))
    if counters is not None:
        stats = b"".join(attribute(k, struct.pack("=Q", v)) for k, v in counters.items())
        content += attribute(8 | _NESTED, stats)
    return attribute(1 | _NESTED, content)


def message(*entries: bytes) -> bytes:
    """A link message's attributes; the length of a long list wraps as the kernel's does."""
    listed = b"".join(entries)
    head = struct.pack("=HH", (len(listed) + 4) & 0xFFFF, _IFLA_VFINFO_LIST | _NESTED)
    return attribute(_IFLA_IFNAME, b"pf0\0") + head + listed + attribute(_IFLA_NEXT, b"")


ALL = {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 0, 7: 7, 8: 8}


def test_every_counter_of_every_vf_is_read() -> None:
    data = message(entry(0, ALL), entry(1, ALL | {2: 2**63}))
    assert traffic_of(data) == {
        0: VfTraffic(1, 2, 3, 4, 5, 6, 7, 8),
        1: VfTraffic(1, 2, 2**63, 4, 5, 6, 7, 8),
    }


def test_256_vfs_whose_list_is_longer_than_its_length_can_say_are_all_read() -> None:
    data = message(*(entry(vf, ALL | {0: vf}) for vf in range(512)))
    assert len(data) > 2**16
    found = traffic_of(data)
    assert [found[vf].rx_packets for vf in range(512)] == list(range(512))


def test_a_driver_that_counts_nothing_has_no_counters() -> None:
    assert traffic_of(message(entry(0, None))) == {}


@pytest.mark.parametrize("cut", [3, 10, 30, 70, 100])
def test_a_truncated_message_is_read_up_to_its_end(cut: int) -> None:
    data = message(entry(0, ALL), entry(1, ALL))
    assert traffic_of(data[:-cut]).keys() <= {0, 1}


def test_a_link_without_vfs_has_no_traffic() -> None:
    assert traffic_of(attribute(_IFLA_IFNAME, b"lo\0")) == {}
    assert traffic_of(b"") == {}


def test_the_kernel_returns_the_state_of_an_interface_of_this_machine() -> None:
    assert read_traffic(1) == {}
    with pytest.raises(OSError, match="No such device"):
        read_traffic(2**31 - 1)


def test_a_pf_that_is_missing_or_counts_nothing_is_left_out() -> None:
    here = pf("0000:3b:00.0", num_vfs=2, netdevs=(Netdev("lo", 1),), pf_name="lo")
    gone = pf("0000:3b:00.1", num_vfs=2, netdevs=(Netdev("pf1", 2**31 - 1),), pf_name="pf1")
    idle = pf("0000:3b:00.2", "pf2")
    assert traffic_of_host(host(here, gone, idle)) == {}


def stats_message(ifindex: int, *numbers: int) -> bytes:
    """The payload that tells of one interface: struct if_stats_msg, then struct rtnl_link_stats64.

    Newer kernels' struct is longer.
    """
    counters = struct.pack("=25Q", *numbers, *range(100, 125 - len(numbers)))
    return struct.pack("=B3xII", 0, ifindex, 1) + attribute(1, counters)


def test_an_interface_counts_all_but_broadcasts() -> None:
    data = stats_message(7, 1, 2, 3, 4, 90, 91, 7, 8, 6)
    assert dict(interface_traffic([data])) == {7: VfTraffic(1, 2, 3, 4, None, 6, 7, 8)}


@pytest.mark.parametrize("size", [0, 3, 12, 14, 40])
def test_an_interface_whose_counters_are_truncated_is_left_out(size: int) -> None:
    assert dict(interface_traffic([stats_message(7, 1)[:size]])) == {}


@needs_root
def test_a_vf_whose_pf_counts_nothing_has_the_counters_of_its_own_interface() -> None:
    def carried() -> tuple[int, dict[int, VfTraffic], VfTraffic]:
        ip("link add vf1 type veth peer name wire", "link set vf1 up", "link set wire up")
        index = socket.if_nametoindex("vf1")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("wire", 0))
            for _ in range(3):
                wire.send(bytes(12) + b"\x88\xb5" + bytes(100))
        silent = pf("0000:3b:00.0", num_vfs=3, netdevs=(Netdev("lo", 1),), pf_name="lo")
        vfs = (
            vf("0000:3b:02.0", silent, 0),  # in a pod, or with vfio
            vf("0000:3b:02.1", silent, 1, netdevs=(Netdev("vf1", index),)),
            vf("0000:3b:02.2", silent, 2, netdevs=(Netdev("gone", 2**31 - 1),)),
        )
        told = traffic_of_host(host(silent, *vfs))
        assert list(told) == [silent.id]
        return index, dict(told[silent.id]), read_interfaces()[index]

    index, vfs, now = in_own_network(carried)
    assert index > 1
    assert list(vfs) == [1]
    assert 3 <= vfs[1].rx_packets <= now.rx_packets
    assert 3 * 114 <= vfs[1].rx_bytes <= now.rx_bytes
    assert vfs[1].rx_broadcast is None

from __future__ import annotations

import struct

import pytest

from agent.host.netlink_wire import attribute
from agent.host.vf_traffic import read_traffic, traffic_of, traffic_of_host
from agent.model.device import Netdev
from agent.model.traffic import VfTraffic
from tests.support.devices import host, pf

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


def test_a_driver_that_counts_nothing_tells_nothing() -> None:
    assert traffic_of(message(entry(0, None))) == {}


@pytest.mark.parametrize("cut", [3, 10, 30, 70, 100])
def test_a_message_that_is_cut_short_is_read_as_far_as_it_goes(cut: int) -> None:
    data = message(entry(0, ALL), entry(1, ALL))
    assert traffic_of(data[:-cut]).keys() <= {0, 1}


def test_a_link_without_vfs_has_no_traffic() -> None:
    assert traffic_of(attribute(_IFLA_IFNAME, b"lo\0")) == {}
    assert traffic_of(b"") == {}


def test_the_kernel_is_asked_about_an_interface_of_this_machine() -> None:
    assert read_traffic(1) == {}
    with pytest.raises(OSError, match="No such device"):
        read_traffic(2**31 - 1)


def test_a_pf_that_is_gone_is_left_out() -> None:
    here = pf("0000:3b:00.0", num_vfs=2, netdevs=(Netdev("lo", 1),), pf_name="lo")
    gone = pf("0000:3b:00.1", num_vfs=2, netdevs=(Netdev("pf1", 2**31 - 1),), pf_name="pf1")
    idle = pf("0000:3b:00.2", "pf2")
    assert traffic_of_host(host(here, gone, idle)) == {here.id: {}}

"""The machinery itself: what the other tests of this folder take for granted of the guest."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .machine import MAX_VFS, Nic, await_quiet, await_truth, carrier, load, rename, set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VFIO_GROUP_STATUS = 0x3B67  # _IO(';', 100 + 3), include/uapi/linux/vfio.h
_VIABLE = 1
_RTMGRP_LINK = 1
_IFF_LOWER_UP = 0x10000


@pytest.fixture(params=[0, 1], ids=["node0", "node1"])
def nic(request: pytest.FixtureRequest) -> Iterator[Nic]:
    one = Nic(request.param)
    yield one
    one.pf.set_vfs(0)


@pytest.fixture
def live_netdev(nic: Nic) -> str:
    name = nic.pf.netdev
    assert name is not None
    set_up(name, up=True)
    await_truth(lambda: carrier(name))
    return name


def test_vfs_have_netdevs_numa_nodes_and_iommu_groups_of_their_own(nic: Nic) -> None:
    vfs = nic.pf.set_vfs(MAX_VFS)
    assert len(vfs) == MAX_VFS
    assert {vf.driver for vf in vfs} == {"igbvf"}
    assert len({vf.netdev for vf in vfs} - {None}) == MAX_VFS
    assert {vf.numa_node for vf in vfs} == {nic.number}
    assert len({vf.iommu_group for vf in (*vfs, nic.pf)} - {None}) == MAX_VFS + 1
    assert nic.pf.set_vfs(0) == ()


def test_pulling_a_cable_is_one_link_event_and_plugging_it_in_another(
    nic: Nic, live_netdev: str, record_property: Callable[[str, object], None]
) -> None:
    for plugged in (False, True):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as links:
            await_quiet()
            links.bind((0, _RTMGRP_LINK))
            links.settimeout(10)
            started = time.monotonic()
            nic.set_cable(plugged=plugged)
            message = links.recv(65536)
        took_ms = round(1000 * (time.monotonic() - started))
        # struct nlmsghdr, then struct ifinfomsg with the index at 4 and the flags at 8.
        index, flags = struct.unpack_from("=II", message, 16 + 4)
        assert index == socket.if_nametoindex(live_netdev)
        assert bool(flags & _IFF_LOWER_UP) is plugged
        assert carrier(live_netdev) is plugged
        record_property(f"{live_netdev}: cable {plugged=} to link event, ms", took_ms)


def test_a_vf_given_to_vfio_has_a_group_that_can_be_opened(nic: Nic) -> None:
    vf = nic.pf.set_vfs(1)[0]
    vf.bind("vfio-pci")
    assert vf.driver == "vfio-pci"
    group = os.open(f"/dev/vfio/{vf.iommu_group}", os.O_RDWR)
    try:
        status = bytearray((8).to_bytes(4, "little") + bytes(4))
        fcntl.ioctl(group, _VFIO_GROUP_STATUS, status)
    finally:
        os.close(group)
    assert status[4] & _VIABLE
    vf.bind(None)
    assert vf.driver == "igbvf"


def test_a_vf_given_to_uio_has_a_node(nic: Nic) -> None:
    load("uio_pci_generic")
    vf = nic.pf.set_vfs(1)[0]
    vf.bind("uio_pci_generic")
    (entry,) = (vf.path / "uio").iterdir()
    assert Path("/dev", entry.name).is_char_device()
    vf.bind(None)


def test_a_renamed_netdev_is_found_again(nic: Nic) -> None:
    name = nic.pf.netdev
    assert name is not None
    rename(name, "uplink0")
    assert nic.pf.netdev == "uplink0"
    rename("uplink0", name)


def test_a_nic_with_vfs_can_be_unplugged_and_plugged_again(
    nic: Nic, record_property: Callable[[str, object], None]
) -> None:
    vfs = nic.pf.set_vfs(2)
    started = time.monotonic()
    nic.unplug()
    record_property(f"nic{nic.number} unplugged, s", round(time.monotonic() - started, 2))
    assert not nic.pf.path.exists()
    assert not any(vf.path.exists() for vf in vfs)
    started = time.monotonic()
    nic.plug()
    record_property(f"nic{nic.number} plugged, s", round(time.monotonic() - started, 2))
    assert nic.pf.driver == "igb"
    assert nic.pf.numa_node == nic.number
    assert len(nic.pf.set_vfs(MAX_VFS)) == MAX_VFS

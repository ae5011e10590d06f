"""The agent on a real kernel: what happens to the machine's NICs is what kubelet is told."""

from __future__ import annotations

import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs
import pytest

from tests.e2e.conftest import pool

from .machine import (
    MAX_VFS,
    Function,
    Nic,
    await_quiet,
    await_truth,
    carrier,
    default_route,
    rename,
    set_up,
)
from .node import NET, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Record = Callable[[str, object], None]

Found = TypeVar("Found")

DPDK = "example.com/dpdk"
AT_ONCE = {"link": True, "recoveryHoldSeconds": 0}
ROUNDS = 10
CYCLES = 50
# Of these cycles at the start, memory and descriptors are not compared: caches fill.
WARM_UP = 10
# Longer than the agent waits for anything before it tells kubelet: the hold of a recovery is 1 s.
SETTLED_S = 2.5
_RTMGRP_LINK = 1
_IFF_LOWER_UP = 0x10000


@pytest.fixture
def nic() -> Iterator[Nic]:
    """A NIC with carrier and without VFs."""
    one = Nic(0)
    one.pf.set_vfs(0)
    _with_carrier(one)
    yield one
    one.pf.set_vfs(0)


def _with_carrier(nic: Nic) -> str:
    name = nic.pf.netdev
    assert name is not None
    set_up(name, up=True)
    await_truth(lambda: carrier(name))
    await_quiet()
    return name


def _name(nic: Nic) -> str:
    name = nic.pf.netdev
    assert name is not None
    return name


def _discovered(function: Function) -> dict[str, object]:
    command = [sys.executable, "-m", "agent", "discover", "-o", "json"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    devices: list[dict[str, object]] = json.loads(shown.stdout)["devices"]
    return next(device for device in devices if device["id"] == function.address)


def test_a_pf_leaves_its_pool_while_it_has_the_default_route(node: Node) -> None:
    pfs = [Nic(0).pf, Nic(1).pf]
    for number in (0, 1):
        _with_carrier(Nic(number))
    with node.agent(pool("net", drivers=["igb"])):
        node.await_ids(*pfs)
        with default_route(_name(Nic(0))):
            node.await_ids(pfs[1])
            found = _discovered(pfs[0])
            assert found["pool"] is None
            reason = f"in use by the host: {_name(Nic(0))} carries the default route"
            assert found["reason"] == reason
        node.await_ids(*pfs)


def test_vfs_join_the_pool_when_created_and_leave_it_when_destroyed(
    node: Node, nic: Nic, record_property: Record
) -> None:
    with node.agent(pool("net", pfNames=[_name(nic)], drivers=["igbvf"], advertiseEmpty=True)):
        node.await_ids()
        for number, count in enumerate((MAX_VFS, 2, MAX_VFS)):
            told = len(node.lists())
            made = nic.pf.set_vfs(count)
            started = time.monotonic()
            node.await_ids(*made, healthy=None)
            listed_ms = round(1000 * (time.monotonic() - started))
            record_property(f"round {number}: {count} VFs made to their list, ms", listed_ms)
            node.await_ids(*made)
            healthy_ms = round(1000 * (time.monotonic() - started))
            record_property(f"round {number}: {count} VFs made to all healthy, ms", healthy_ms)
            await_quiet(SETTLED_S)
            node.await_ids(*made)
            burst = node.lists()[told:]
            sizes = [(len(each), sum(d.healthy for d in each)) for each in burst]
            record_property(f"round {number}: lists of {count} VFs made, (size, healthy)", sizes)
            assert {d.id for each in burst for d in each} == {vf.address for vf in made}
            assert len(burst) <= 2, "the PF's carrier flaps while VFs are made"

            told = len(node.lists())
            nic.pf.set_vfs(0)
            started = time.monotonic()
            node.await_ids()
            gone_ms = round(1000 * (time.monotonic() - started))
            record_property(f"round {number}: {count} VFs destroyed to none, ms", gone_ms)
            await_quiet(SETTLED_S)
            assert node.lists()[-1] == ()
            sizes = [(len(each), sum(d.healthy for d in each)) for each in node.lists()[told:]]
            record_property(f"round {number}: lists of VFs destroyed, (size, healthy)", sizes)


def test_a_pulled_cable_removes_the_vfs_from_allocatable_until_it_is_plugged_in(
    node: Node, nic: Nic, record_property: Record
) -> None:
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    vfs = nic.pf.set_vfs(2)
    other = Nic(1).pf
    with node.agent(
        pool("net", pfNames=[_name(nic)], drivers=["igbvf"], health=AT_ONCE),
        pool("other", drivers=["igb"], health=AT_ONCE),
    ) as agent:
        node.await_ids(*vfs)
        told = len(node.lists())
        for _ in range(ROUNDS):
            for plugged in (False, True):
                await_quiet()
                took[plugged].append(_cable_to_list_ms(node, nic, vfs, plugged=plugged))
        assert len(node.lists()) == told + 2 * ROUNDS, "one list for each change"
        assert agent.events("device.unhealthy", at_least=ROUNDS)[-1]["cause"] == "no carrier"
        assert not any(
            other.address in line["devices"] for line in agent.events("device.unhealthy")
        )
    for plugged, figures in took.items():
        for what, column in zip(("cable", "link event"), zip(*figures, strict=True), strict=True):
            median, worst = round(statistics.median(column), 1), round(max(column), 1)
            record_property(f"{what} {plugged=} to kubelet's list, ms", f"{median=} {worst=}")


def _cable_to_list_ms(
    node: Node, nic: Nic, vfs: tuple[Function, ...], *, plugged: bool
) -> tuple[float, float]:
    """Milliseconds from the cable's move and from the kernel's word of it to the list."""
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as links,
        ThreadPoolExecutor(2) as watchers,
    ):
        links.bind((0, _RTMGRP_LINK))
        links.settimeout(10)

        def heard() -> float:
            message = links.recv(65536)
            now = time.monotonic()
            index, flags = struct.unpack_from("=II", message, 16 + 4)
            assert index == socket.if_nametoindex(_name(nic))
            assert bool(flags & _IFF_LOWER_UP) is plugged
            return now

        def listed() -> float:
            node.await_ids(*vfs, healthy=plugged)
            return time.monotonic()

        at_event, at_list = watchers.submit(heard), watchers.submit(listed)
        started = time.monotonic()
        nic.set_cable(plugged=plugged)
        ended = at_list.result()
        return 1000 * (ended - started), 1000 * (ended - at_event.result())


def test_a_vf_given_to_vfio_moves_to_its_pool_and_its_group_can_be_opened(
    node: Node, nic: Nic
) -> None:
    kept, moved = nic.pf.set_vfs(2)
    with node.agent(
        pool("net", pfNames=[_name(nic)], drivers=["igbvf"]),
        pool("dpdk", pfNames=[_name(nic)], drivers=["vfio-pci"]),
    ):
        node.await_ids(kept, moved)
        moved.bind("vfio-pci")
        node.await_ids(moved, resource=DPDK)
        node.await_ids(kept)
        moved.bind(None)
        node.await_ids(kept, moved)
        node.await_ids(resource=DPDK)
        moved.bind("vfio-pci")
        node.await_ids(moved, resource=DPDK)
        given = node.kubelet.allocate(DPDK, moved.address)
        paths = [device.host_path for device in given.devices]
        assert sorted(paths) == sorted([f"/dev/vfio/{moved.iommu_group}", "/dev/vfio/vfio"])
        for path in paths:
            os.close(os.open(path, os.O_RDWR))
        assert given.envs["PCIDEVICE_EXAMPLE_COM_DPDK"] == moved.address
        # A pod has it now: it stays in the pool that it was given from, with a wrong driver.
        moved.bind(None)
        node.await_ids(moved, resource=DPDK, healthy=False)
        node.await_ids(kept)


def test_each_device_is_listed_with_the_numa_node_of_its_slot(node: Node) -> None:
    nics = [Nic(0), Nic(1)]
    made = {vf.address: nic.number for nic in nics for vf in nic.pf.set_vfs(2)}
    for nic in nics:
        _with_carrier(nic)
    with node.agent(pool("net", drivers=["igbvf"])):
        devices = node.await_ids(*map(Function, made))
    assert {d.id: d.numa_nodes for d in devices} == {id_: (n,) for id_, n in made.items()}
    for nic in nics:
        nic.pf.set_vfs(0)


def test_vfs_follow_the_name_of_their_pf_from_pool_to_pool(node: Node, nic: Nic) -> None:
    vfs, old = nic.pf.set_vfs(2), _name(nic)
    renamed = "example.com/renamed"
    with node.agent(
        pool("net", pfNames=[old], drivers=["igbvf"]),
        pool("renamed", pfNames=["uplink0"], drivers=["igbvf"]),
    ):
        node.await_ids(*vfs)
        rename(old, "uplink0")
        node.await_ids(*vfs, resource=renamed)
        node.await_ids()
        rename("uplink0", old)
        node.await_ids(*vfs)
        node.await_ids(resource=renamed)


def test_a_nic_that_is_unplugged_and_plugged_again_is_back_in_its_pool(
    node: Node, nic: Nic
) -> None:
    vfs = nic.pf.set_vfs(2)
    with node.agent(pool("net", rootDevices=[nic.pf.address], drivers=["igbvf"])) as agent:
        node.await_ids(*vfs)
        nic.unplug()
        node.await_ids()
        nic.plug()
        _with_carrier(nic)
        node.await_ids(*nic.pf.set_vfs(MAX_VFS))
        # The new netdev may have another index: its carrier must still be followed.
        await_quiet()
        nic.set_cable(plugged=False)
        node.await_ids(*nic.pf.vfs, healthy=False)
        nic.set_cable(plugged=True)
        node.await_ids(*nic.pf.vfs)
        assert node.kubelet.count(NET) == 1
        assert agent.process.poll() is None


@attrs.frozen
class Usage:
    """What a process has of the machine."""

    descriptors: tuple[str, ...]
    resident_kib: int
    wake_ups: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Read from the kernel now."""
        folder = Path("/proc", str(pid))
        threads = [_status(path / "status") for path in (folder / "task").iterdir()]
        return cls(
            descriptors=_settled(lambda: _descriptors(folder / "fd")),
            resident_kib=_status(folder / "status")["VmRSS"],
            wake_ups=sum(thread["voluntary_ctxt_switches"] for thread in threads),
        )


def _settled(tell: Callable[[], Found]) -> Found:
    """What it tells twice in a row: a scan that is under way has folders open."""
    before, now = None, tell()
    while now != before:
        await_quiet(0.5)
        before, now = now, tell()
    return now


def _descriptors(folder: Path) -> tuple[str, ...]:
    found = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return tuple(sorted(found))


def _status(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (words[:2] for words in lines if len(words) >= 2)
    return {name.rstrip(":"): int(value) for name, value in pairs if value.isdecimal()}


def test_fifty_cycles_of_vfs_leave_nothing_behind(
    node: Node, nic: Nic, record_property: Record
) -> None:
    with node.agent(pool("net", pfNames=[_name(nic)], drivers=["igbvf"])) as agent:
        before, started = Usage.of(agent.process.pid), time.monotonic()
        for number in range(CYCLES):
            node.await_ids(*nic.pf.set_vfs(1 + number % 2), healthy=None)
            nic.pf.set_vfs(0)
            node.await_ids()
            if number == WARM_UP:
                await_quiet(SETTLED_S)
                before = Usage.of(agent.process.pid)
        await_quiet(SETTLED_S)
        after = Usage.of(agent.process.pid)
        assert node.kubelet.count(NET) == 1
    record_property(f"{CYCLES} cycles, s", round(time.monotonic() - started, 1))
    after_warm_up = f"after {WARM_UP} and after all cycles"
    descriptors = f"{len(before.descriptors)} -> {len(after.descriptors)}"
    record_property(f"descriptors {after_warm_up}", descriptors)
    resident_kib = f"{before.resident_kib} -> {after.resident_kib}"
    record_property(f"resident KiB {after_warm_up}", resident_kib)
    record_property(f"lists in {CYCLES} cycles", len(node.lists()))
    assert len(after.descriptors) <= len(before.descriptors), (before, after)
    assert after.resident_kib < before.resident_kib + 4096


def test_on_a_host_without_events_the_agent_logs_nothing_and_sleeps(
    node: Node, nic: Nic, record_property: Record
) -> None:
    vfs = nic.pf.set_vfs(2)
    with node.agent(pool("net", pfNames=[_name(nic)], drivers=["igbvf"])) as agent:
        node.await_ids(*vfs)
        await_quiet(SETTLED_S)
        said, before = len(agent.raw), Usage.of(agent.process.pid)
        await_quiet(10)
        after = Usage.of(agent.process.pid)
        record_property("wake-ups of an idle agent in 10 s", after.wake_ups - before.wake_ups)
        assert agent.raw[said:] == []
        assert len(node.lists()) == 1
        assert after.wake_ups - before.wake_ups <= 20

"""InfiniBand ports are read again and again, since no event tells of their state."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.bus import Bus
from agent.discovery.scan import scan
from agent.model.events import HostChanged, SnapshotTaken
from agent.model.snapshot import Snapshot
from agent.watch.rdma_ports import READ_AGAIN_S, RdmaPortWatch
from tests.support.hardware import CONNECTX6_INFINIBAND
from tests.support.host_builder import HostBuilder

pytestmark = pytest.mark.looptime

PF = "0000:af:00.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    """A host with one InfiniBand PF, whose port is active."""
    host = HostBuilder(tmp_path)
    host.pf(PF, "ibs1", CONNECTX6_INFINIBAND, vfs=1)
    host.rdma(PF, "mlx5_0")
    return host


@asynccontextmanager
async def watching(
    host: HostBuilder, snapshot: Snapshot
) -> AsyncIterator[tuple[Bus, list[HostChanged]]]:
    """A watch at work, and the hints that it publishes."""
    bus, diagnose = Bus(), list[HostChanged]()
    bus.on(HostChanged, diagnose.append)
    task = asyncio.create_task(RdmaPortWatch(host.roots, bus, snapshot).run())
    try:
        yield bus, diagnose
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_there_is_one(diagnose: list[HostChanged]) -> None:
    """Wait for a hint; the reading thread ends in real time, whatever the loop's clock says."""
    while not diagnose:  # noqa: ASYNC110 - the thread's end is no event of the virtual clock
        await asyncio.sleep(READ_AGAIN_S)


async def test_a_port_that_changes_its_state_causes_a_scan_of_its_function(
    host: HostBuilder,
) -> None:
    async with watching(host, scan(host.roots)) as (_, diagnose):
        host.set_rdma_port(PF, "mlx5_0", "1: DOWN")
        await until_there_is_one(diagnose)
    assert diagnose[0] == HostChanged(frozenset({PF}))


async def test_a_port_in_the_scanned_state_causes_no_scan(host: HostBuilder) -> None:
    host.rdma(host.pf("0000:b0:00.0", "ibs2", CONNECTX6_INFINIBAND), "mlx5_9")
    async with watching(host, scan(host.roots)) as (_, diagnose):
        host.set_rdma_port("0000:b0:00.0", "mlx5_9", "1: DOWN")
        await until_there_is_one(diagnose)
    assert diagnose[0].touched == frozenset({"0000:b0:00.0"})


async def test_a_port_that_cannot_be_read_causes_no_scan(host: HostBuilder) -> None:
    other = host.pf("0000:b0:00.0", "ibs2", CONNECTX6_INFINIBAND)
    host.rdma(other, "mlx5_9")
    async with watching(host, scan(host.roots)) as (_, diagnose):
        shutil.rmtree(host.folder(PF) / "infiniband/mlx5_0/ports")
        host.set_rdma_port(other, "mlx5_9", "2: INIT")
        await until_there_is_one(diagnose)
    assert diagnose[0].touched == frozenset({other})


async def test_ports_that_a_later_scan_finds_are_followed_too(host: HostBuilder) -> None:
    async with watching(host, Snapshot()) as (bus, diagnose):
        await asyncio.sleep(0)
        bus.publish(SnapshotTaken(scan(host.roots), settled=True))
        host.set_rdma_port(PF, "mlx5_0", "2: INIT")
        await until_there_is_one(diagnose)
    assert diagnose[0].touched == frozenset({PF})

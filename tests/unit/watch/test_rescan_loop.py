from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from agent.bus import Bus
from agent.events.host import ScanResumed, ScanStalled
from agent.model.device import Device
from agent.model.events import HostChanged
from agent.model.snapshot import Snapshot
from agent.watch.rescan import (
    LOOK_AGAIN_S,
    QUIET_S,
    STALL_S,
    UNSETTLED_AT_MOST_S,
    WINDOW_S,
    RescanLoop,
    in_daemon_thread,
)
from tests.support.devices import pf, vf
from tests.support.log_lines import LogLines
from tests.support.scripted import ScriptedHost, Told, hint_every, now

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
VFS = tuple(vf(f"0000:3b:02.{i}", PF0, i) for i in range(4))
HINT = HostChanged()


def quiet_after(moment_s: float) -> float:
    """When a host counts as settled whose last hint came then."""
    return round(moment_s + QUIET_S, 6)


@asynccontextmanager
async def running(host: ScriptedHost) -> AsyncIterator[tuple[Bus, Told, RescanLoop]]:
    """A monitor at work, listening already."""
    bus = Bus()
    rescan_loop = host.rescan_loop(bus)
    task = asyncio.create_task(rescan_loop.run())
    await asyncio.sleep(0)
    try:
        yield bus, Told(bus), rescan_loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_without_a_hint_nothing_is_scanned() -> None:
    host = ScriptedHost()
    async with running(host) as (_, told, _):
        await asyncio.sleep(3600.0)
    assert (host.scans, told.snapshots) == ([], [])


@pytest.mark.looptime
async def test_the_first_hint_scans_at_once_and_the_host_settles_after_a_quiet_while() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as (bus, told, rescan_loop):
        await asyncio.sleep(5.0)
        bus.publish(HINT)
        await asyncio.sleep(5.0)
    assert host.scans == [5.0]
    assert told.snapshots == [(5.0, 1, False), (quiet_after(5.0), 1, True)]
    assert (rescan_loop.newest.devices, rescan_loop.scans) == ((PF0,), 1)


@pytest.mark.looptime
async def test_a_scan_without_changes_is_published_only_as_settled() -> None:
    async with running(ScriptedHost((PF0,))) as (bus, told, _):
        for _ in range(2):
            bus.publish(HINT)
            await asyncio.sleep(5.0)
    assert told.snapshots == [
        (0.0, 1, False),
        (quiet_after(0.0), 1, True),
        (quiet_after(5.0), 1, True),
    ]


@pytest.mark.looptime
async def test_hints_during_a_scan_cause_exactly_one_more_scan() -> None:
    host = ScriptedHost((PF0,), scan_s=0.4)
    async with running(host) as (bus, _, _):
        bus.publish(HINT)
        for _ in range(30):
            await asyncio.sleep(0.01)
            bus.publish(HINT)
        await asyncio.sleep(10.0)
    assert host.scans == [0.0, 0.4]


@pytest.mark.looptime
async def test_a_change_after_the_start_of_a_scan_is_seen_by_the_next_scan() -> None:
    host = ScriptedHost((PF0,), scan_s=0.4)
    async with running(host) as (bus, told, _):
        bus.publish(HINT)
        await asyncio.sleep(0.1)
        host.devices = (PF0, *VFS)
        bus.publish(HINT)
        await asyncio.sleep(10.0)
    assert told.snapshots == [(0.4, 1, False), (0.8, 5, False), (quiet_after(0.8), 5, True)]


@pytest.mark.looptime
async def test_a_burst_costs_one_scan_a_window() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as (bus, told, _):
        await hint_every(bus, 0.001, until_s=0.5)
        await asyncio.sleep(10.0)
    pauses = [round(b - a, 6) for a, b in zip(host.scans, host.scans[1:], strict=False)]
    assert host.scans[0] == 0.0
    assert set(pauses) == {WINDOW_S}
    assert len(host.scans) <= 0.5 / WINDOW_S + 2
    assert [settled for _, _, settled in told.snapshots] == [False, True]


@pytest.mark.looptime
async def test_a_hint_within_the_quiet_period_delays_settling() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as (bus, told, _):
        for _ in range(3):
            bus.publish(HINT)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10.0)
    assert host.scans == [0.0, 0.1, 0.2]
    assert told.snapshots == [(0.0, 1, False), (quiet_after(0.2), 1, True)]


@pytest.mark.looptime
async def test_every_scan_that_saw_a_change_is_published_before_the_host_settles() -> None:
    host = ScriptedHost((PF0, *VFS))
    async with running(host) as (bus, told, _):
        for left in range(3, -1, -1):
            bus.publish(HINT)
            host.devices = (PF0, *VFS[:left])
            await asyncio.sleep(0.1)
        await asyncio.sleep(10.0)
    assert told.snapshots == [
        (0.0, 4, False),
        (0.1, 3, False),
        (0.2, 2, False),
        (0.3, 1, False),
        (quiet_after(0.3), 1, True),
    ]


@pytest.mark.looptime
async def test_a_host_that_never_settles_counts_as_settled_at_intervals() -> None:
    async with running(ScriptedHost((PF0,))) as (bus, told, _):
        await hint_every(bus, 0.02, until_s=10.0)
    settled = [when for when, _, settled in told.snapshots if settled]
    assert len(settled) >= 5
    gaps = [b - a for a, b in zip([0.0, *settled], settled, strict=False)]
    assert max(gaps) <= UNSETTLED_AT_MOST_S + 2 * WINDOW_S


@pytest.mark.looptime
async def test_changes_before_the_host_settled_are_never_lost() -> None:
    devices = (PF0, *VFS)
    host = ScriptedHost()
    async with running(host) as (bus, told, _):
        storm = asyncio.create_task(hint_every(bus, 0.03, until_s=6.0))
        for count in range(6):
            host.devices = devices[:count]
            await asyncio.sleep(0.9)
        await storm
        await asyncio.sleep(1.0)
    assert told.snapshots[-1][1:] == (5, True)
    assert {count for _, count, _ in told.snapshots} == {1, 2, 3, 4, 5}


@pytest.mark.looptime
async def test_a_scan_that_hangs_is_reported_until_it_is_done(log_lines: LogLines) -> None:
    host = ScriptedHost((PF0,), scan_s=2.5 * STALL_S)
    async with running(host) as (bus, told, rescan_loop):
        stalls: list[tuple[float, float]] = []
        bus.on(ScanStalled, lambda e: stalls.append((now(), e.seconds)))
        bus.on(ScanResumed, lambda _: stalls.append((now(), 0.0)))
        bus.publish(HINT)
        await asyncio.sleep(2.2 * STALL_S)
        assert (rescan_loop.stalled_s, rescan_loop.newest, told.snapshots) == (
            2 * STALL_S,
            Snapshot(),
            [],
        )
        await asyncio.sleep(STALL_S)
        assert (rescan_loop.stalled_s, rescan_loop.newest.devices) == (0.0, (PF0,))
    assert stalls == [(STALL_S, STALL_S), (2 * STALL_S, 2 * STALL_S), (2.5 * STALL_S, 0.0)]
    assert log_lines.events() == ["host.scan_stalled", "host.scan_resumed"]
    assert log_lines.fields("host.scan_stalled") == [{"seconds": STALL_S}]


@pytest.mark.looptime
async def test_hints_during_a_scan_that_hangs_lead_to_one_more_scan() -> None:
    host = ScriptedHost((PF0,), scan_s=25.0)
    async with running(host) as (bus, _, _):
        await hint_every(bus, 1.0, until_s=20.0)
        host.scan_s = 0.0
        await asyncio.sleep(20.0)
    assert host.scans == [0.0, 25.0]


@pytest.mark.looptime
async def test_an_unexpected_exception_in_a_scan_ends_the_rescan_loop() -> None:
    bus = Bus()
    host = ScriptedHost(fault=ZeroDivisionError("bug"))
    monitoring = asyncio.create_task(host.rescan_loop(bus).run())
    await asyncio.sleep(0)
    bus.publish(HINT)
    with pytest.raises(ZeroDivisionError):
        await monitoring


@pytest.mark.looptime
async def test_a_scan_without_free_descriptors_is_logged_once_and_tried_again(
    log_lines: LogLines,
) -> None:
    bus = Bus()
    host = ScriptedHost(fault=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    rescan_loop = host.rescan_loop(bus)
    before = rescan_loop.newest
    monitoring = asyncio.create_task(rescan_loop.run())
    await asyncio.sleep(0)
    bus.publish(HINT)
    await asyncio.sleep(2.0)
    assert rescan_loop.newest is before
    host.fault = None
    await asyncio.sleep(20.0)
    assert rescan_loop.newest is not before
    monitoring.cancel()
    (told,) = log_lines.fields("host.scan_failed")
    assert told["error"].endswith("raise the process's limit of open files (ulimit -n)")


@pytest.mark.looptime
async def test_scanning_on_demand_publishes_nothing_and_is_counted() -> None:
    bus = Bus()
    told = Told(bus)
    rescan_loop = ScriptedHost((PF0,)).rescan_loop(bus)
    first, second = await rescan_loop.scan_now(), await rescan_loop.scan_now()
    assert (rescan_loop.scans, first) == (2, second)
    assert (rescan_loop.newest, told.snapshots) == (second, [])


async def test_a_real_scan_runs_in_a_daemon_thread_while_the_loop_continues() -> None:
    begun, go = threading.Event(), threading.Event()
    seen: list[bool] = []

    def scan(_touched: frozenset[str] | None) -> Snapshot:
        seen.append(threading.current_thread().daemon)
        begun.set()
        go.wait(20)
        return Snapshot(devices=(PF0,))

    scanning = asyncio.create_task(RescanLoop(scan, Bus()).scan_now())
    assert await asyncio.to_thread(begun.wait, 20)
    go.set()
    assert (await scanning).devices == (PF0,)
    assert seen == [True]


async def test_an_error_in_the_thread_is_raised_in_the_caller() -> None:
    def fails() -> Device:
        raise FileNotFoundError("sysfs")

    with pytest.raises(FileNotFoundError, match="sysfs"):
        await in_daemon_thread(fails)


async def test_cancelling_the_wait_does_not_affect_the_thread() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(20)
        ended.set()

    waiting = asyncio.create_task(in_daemon_thread(work))
    assert await asyncio.to_thread(begun.wait, 20)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    assert await asyncio.to_thread(ended.wait, 20)


@pytest.mark.parametrize("fails", [False, True])
def test_a_scan_that_ends_after_the_loop_reports_nothing(fails: bool) -> None:  # noqa: FBT001
    begun, go = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.append(threading.current_thread())
        begun.set()
        go.wait(20)
        if fails:
            raise OSError("late")

    async def leave_early() -> None:
        task = asyncio.create_task(in_daemon_thread(work))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()

    asyncio.run(leave_early())
    go.set()
    assert asyncio.run(in_daemon_thread(threading.current_thread)) is threads[0], "it goes on"


@pytest.mark.looptime
async def test_a_pf_that_still_counts_removed_vfs_is_scanned_again() -> None:
    host = ScriptedHost((PF0, *VFS))
    async with running(host) as (bus, told, rescan_loop):
        bus.publish(HINT)
        await asyncio.sleep(10.0)
        host.devices = (PF0,)
        bus.publish(HINT)
        await asyncio.sleep(1.0)
        host.devices = (attrs.evolve(PF0, num_vfs=0),)  # without an event
        await asyncio.sleep(10.0)
        assert rescan_loop.newest.devices == host.devices
    assert host.reads[-1] == frozenset()
    assert told.snapshots[-1] == (quiet_after(10.0) + LOOK_AGAIN_S, 1, True)
    assert host.scans == [0.0, 10.0, quiet_after(10.0) + LOOK_AGAIN_S]


@pytest.mark.looptime
async def test_a_hint_arrives_before_the_second_scan() -> None:
    host = ScriptedHost((PF0, *VFS))
    async with running(host) as (bus, _, _monitor):
        bus.publish(HINT)
        await asyncio.sleep(10.0)
        host.devices = (PF0,)
        bus.publish(HINT)
        await asyncio.sleep(1.0)
        bus.publish(HINT)
        await asyncio.sleep(60.0)
    assert host.scans == [0.0, 10.0, 11.0]


@pytest.mark.looptime
async def test_every_snapshot_of_a_burst_has_the_time_of_its_first_hint() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as (bus, told, _):
        for moment_s in (5.0, 20.0):
            await asyncio.sleep(moment_s - now())
            bus.publish(HINT)
            await asyncio.sleep(0.1)
            host.devices = (PF0, VFS[int(moment_s) % 4])
            bus.publish(HINT)
        await asyncio.sleep(5.0)
    assert told.causes == [5.0, 5.0, 5.0, 20.0, 20.0]

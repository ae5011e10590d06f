"""What a scan is asked to read: all that the hints since the last one named, or everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.bus import Bus
from agent.model.events import HostChanged
from agent.watch.rescan import QUIET_S, WHOLE_S
from tests.support.devices import pf
from tests.support.scripted import ScriptedHost, Told

pytestmark = pytest.mark.looptime

PF0 = pf("0000:3b:00.0", "pf0")
A, B = frozenset({"0000:3b:02.0"}), frozenset({"0000:3b:02.1"})


@asynccontextmanager
async def running(host: ScriptedHost) -> AsyncIterator[Bus]:
    """A monitor at work on a host that was scanned as at the agent's start."""
    bus = Bus()
    rescan_loop = host.rescan_loop(bus)
    await rescan_loop.scan_now()
    host.reads.clear()
    task = asyncio.create_task(rescan_loop.run())
    await asyncio.sleep(0)
    try:
        yield bus
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def reads(*diagnose: HostChanged, scan_s: float = 0.0) -> list[frozenset[str] | None]:
    """What scans are asked for where the first hint comes first, the rest during its scan."""
    host = ScriptedHost((PF0,), scan_s=scan_s)
    async with running(host) as bus:
        bus.publish(diagnose[0])
        await asyncio.sleep(scan_s / 2)
        for hint in diagnose[1:]:
            bus.publish(hint)
        await asyncio.sleep(5.0)
    return host.reads


async def test_a_hint_that_names_a_function_causes_a_read_of_that_function_only() -> None:
    assert await reads(HostChanged(A)) == [A]


async def test_a_hint_without_names_causes_a_full_scan() -> None:
    assert await reads(HostChanged()) == [None]


async def test_a_hint_about_facts_that_are_listed_anyway_causes_no_read_of_a_function() -> None:
    assert await reads(HostChanged(frozenset())) == [frozenset()]


async def test_functions_named_by_hints_during_a_scan_are_read_by_the_next_one() -> None:
    diagnose = (HostChanged(A), HostChanged(B), HostChanged(A))
    assert await reads(*diagnose, scan_s=0.4) == [A, A | B]


@pytest.mark.parametrize("order", [1, -1])
async def test_one_hint_without_names_overrides_all_hints_with_names(order: int) -> None:
    rest = (HostChanged(B), HostChanged())[::order]
    assert await reads(HostChanged(A), *rest, scan_s=0.4) == [A, None]


async def test_hints_before_a_full_scan_do_not_cause_another_full_scan() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as bus:
        for hint in (HostChanged(), HostChanged(A)):
            bus.publish(hint)
            await asyncio.sleep(5.0)
    assert host.reads == [None, A]


async def test_at_intervals_a_full_scan_follows_once_the_host_has_settled() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as bus:
        for pause_s in (5.0, WHOLE_S, 5.0):
            bus.publish(HostChanged(A))
            await asyncio.sleep(pause_s)
            bus.publish(HostChanged(B))
            await asyncio.sleep(5.0)
    assert host.reads == [A, B, A, B, None, A, B]


async def test_changes_without_a_hint_are_reported_after_a_full_scan() -> None:
    host = ScriptedHost((PF0,))
    async with running(host) as bus:
        told = Told(bus)
        await asyncio.sleep(WHOLE_S)
        bus.publish(HostChanged(A))
        await asyncio.sleep(QUIET_S / 2)
        host.devices = ()
        await asyncio.sleep(5.0)
    assert [(count, settled) for _, count, settled in told.snapshots] == [(1, True), (0, True)]


async def test_a_host_without_events_is_never_scanned() -> None:
    host = ScriptedHost((PF0,))
    async with running(host):
        await asyncio.sleep(10 * WHOLE_S)
    assert host.reads == []

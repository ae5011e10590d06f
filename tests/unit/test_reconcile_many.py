"""A pass over many devices: its work is done beside the loop, on the real clock and in threads."""

from __future__ import annotations

import asyncio
import threading
from unittest.mock import patch

import pytest

from agent import blocking, logs
from agent.events.event import LogEvent
from agent.health import pool_health
from agent.model.answers import DeviceListing, ListedDevice
from agent.reconcile import MANY_DEVICES, MANY_VALUES
from agent.state_events import PoolsChanged
from tests.support.pools import pool
from tests.support.reconciling import Node, family, node


def sizes(at: Node) -> list[int]:
    """How many devices each list had that was offered."""
    return [len(offers[0].devices) for _, offers in at.fleet.applied]


@pytest.mark.parametrize(("devices", "threads"), [(MANY_DEVICES - 1, 0), (MANY_DEVICES, 1)])
async def test_a_pass_over_many_devices_works_in_a_thread_and_one_over_few_in_the_loop(
    devices: int, threads: int
) -> None:
    with patch.dict(blocking._workers, clear=True):
        async with node(*family(devices - 1)) as at:
            assert (sizes(at), len(blocking._workers)) == ([devices - 1], threads)


@pytest.mark.parametrize(("values", "threads"), [(MANY_VALUES - 2, 0), (MANY_VALUES - 1, 1)])
async def test_a_pass_over_many_values_of_selectors_works_in_a_thread_on_a_small_host_too(
    values: int, threads: int
) -> None:
    wanted = pool("r", {"pfNames": ["pf0", *(f"absent{n}" for n in range(values - 1))]})
    with patch.dict(blocking._workers, clear=True):
        async with node(*family(3), pools=(wanted,)) as at:
            assert (sizes(at), len(blocking._workers)) == ([3], threads)


async def test_lists_of_many_devices_are_made_in_the_thread_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_in: list[threading.Thread] = []

    def listing(resource: str, devices: tuple[ListedDevice, ...]) -> DeviceListing:
        made_in.append(threading.current_thread())
        return DeviceListing(resource, devices)

    monkeypatch.setattr(pool_health, "DeviceListing", listing)
    async with node(*family(MANY_DEVICES)) as at:
        assert sizes(at) == [MANY_DEVICES]
    assert len(made_in) == 1
    assert made_in[0] is not threading.main_thread()


async def test_changes_during_a_pass_over_many_devices_are_listed_by_the_next() -> None:
    vfs = family(MANY_DEVICES + 1)
    async with node(*vfs) as at, asyncio.timeout(60):
        passed = asyncio.Event()
        at.bus.on(PoolsChanged, lambda _: passed.set())
        at.host(*vfs[:-1])
        await asyncio.sleep(0)  # the pass has begun
        at.host(*vfs[:-2])
        for _ in range(2):
            await passed.wait()
            passed.clear()
    assert sizes(at) == [MANY_DEVICES + 1, MANY_DEVICES, MANY_DEVICES - 1]


async def test_a_pass_over_many_devices_lets_other_tasks_run_between_two_pools() -> None:
    count = 16
    pools = tuple(
        pool(f"r{n}", {"pfNames": [f"pf0#{n * 128}-{n * 128 + 127}"]}) for n in range(count)
    )
    turns: list[str] = []

    def told(event: LogEvent) -> None:
        if event.name in {"device.added", "pool.assigned"}:
            turns.append(event.name)
            asyncio.get_running_loop().call_soon(turns.append, "turn")

    leave = logs.follow(told)
    async with node(*family(MANY_DEVICES), pools=pools):
        leave()
    assert turns == [*["device.added", "turn"] * count, *["pool.assigned", "turn"] * count]

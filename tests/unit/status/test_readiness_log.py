from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest

from agent.bus import Bus
from agent.change_log import health_events
from agent.events.host import ScanResumed
from agent.health.pool_health import Change
from agent.health.verdict import HEALTHY, Cause, Health
from agent.status.readiness_log import BRIEF_S, START_S, ReadinessLogger
from agent.status.state import AgentState, ScanStatus
from tests.support.devices import host
from tests.support.log_lines import LogLines
from tests.support.moment import moment

READY = moment(host())
STALLED = attrs.evolve(READY, scan=ScanStatus(2, stalled_s=10.0))
pytestmark = pytest.mark.looptime


@asynccontextmanager
async def following(first: AgentState) -> AsyncIterator[Callable[[AgentState], None]]:
    """News of a state that the test replaces by calling what this gives."""
    bus = Bus()
    now = [first]

    def become(state: AgentState) -> None:
        now[0] = state
        bus.publish(ScanResumed())

    task = asyncio.create_task(ReadinessLogger(bus, lambda: now[0]).run())
    await asyncio.sleep(0)
    yield become
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not bus._receivers[ScanResumed]


async def test_readiness_at_the_start_is_logged_at_once_and_only_once(log_lines: LogLines) -> None:
    async with following(READY) as become:
        become(READY)
        await asyncio.sleep(60)
    assert log_lines.fields("agent.ready") == [{"ready": True}]


async def test_an_agent_that_is_stopping_does_not_log_that_it_is_ready(
    log_lines: LogLines,
) -> None:
    async with following(attrs.evolve(READY, serving=False)) as become:
        become(attrs.evolve(READY, stopping=True))
        await asyncio.sleep(BRIEF_S / 2)
    assert log_lines.fields("agent.ready") == []


async def test_missing_items_are_logged_if_they_persist(log_lines: LogLines) -> None:
    async with following(READY) as become:
        become(STALLED)
        await asyncio.sleep(BRIEF_S / 2)
        assert len(log_lines.fields("agent.ready")) == 1
        await asyncio.sleep(BRIEF_S)
        become(READY)
        await asyncio.sleep(0.001)
    assert log_lines.fields("agent.ready") == [
        {"ready": True},
        {"ready": False, "missing": "a scan of the host has been hanging for 10 s"},
        {"ready": True},
    ]


async def test_a_short_gap_is_not_logged(log_lines: LogLines) -> None:
    async with following(READY) as become:
        become(STALLED)
        await asyncio.sleep(BRIEF_S / 2)
        become(READY)
        await asyncio.sleep(60)
    assert log_lines.fields("agent.ready") == [{"ready": True}]


async def test_a_start_that_hangs_reports_after_a_while_what_is_missing(
    log_lines: LogLines,
) -> None:
    async with following(STALLED) as become:
        await asyncio.sleep(START_S - 0.1)
        assert log_lines.events() == []
        await asyncio.sleep(0.2)
        assert [f["ready"] for f in log_lines.fields("agent.ready")] == [False]
        become(READY)
        await asyncio.sleep(0.001)
    assert [f["ready"] for f in log_lines.fields("agent.ready")] == [False, True]


async def test_a_change_of_health_causes_no_scan() -> None:
    bus, looked = Bus(), 0

    def state() -> AgentState:
        nonlocal looked
        looked += 1
        return READY

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(ReadinessLogger(bus, state).run())
        await asyncio.sleep(1)
        for event in health_events("r", (Change("a", HEALTHY, Health(Cause.PF_DOWN)),)):
            bus.publish(event)
        await asyncio.sleep(1)
        assert looked == 1
        bus.publish(ScanResumed())
        await asyncio.sleep(1)
        assert looked == 2
        task.cancel()

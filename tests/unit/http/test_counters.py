from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agent.bus import Bus
from agent.change_log import health_events
from agent.events.allocation import AllocationMade, AllocationRefused
from agent.events.config import ConfigReloaded
from agent.events.plugin import ListPushed, Registered, RegistrationFailed
from agent.health.pool_health import Change
from agent.health.verdict import HEALTHY, Cause, Health
from agent.http.counters import Counters, Histogram, Recorder
from agent.model.events import DevicesAllocated

SICK = Health(Cause.PF_DOWN)
REGISTERED = Registered(resource="r", method="legacy", generation=1, socket="r.sock")
DOWN = (Change("a", HEALTHY, SICK), Change("b", HEALTHY, SICK))


def pushed(seen_at: float | None = None) -> ListPushed:
    return ListPushed(resource="r", healthy=1, unhealthy=1, sequence=2, seen_at=seen_at)


class Agent:
    """A recorder, and the bus that it hears."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.recorder = Recorder(self.bus)

    def tell(self, *events: object) -> None:
        for event in events:
            self.bus.publish(event)


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def counted(agent: Agent) -> Iterator[Counters]:
    with agent.recorder as counters:
        yield counters


def observations(histogram: Histogram) -> int:
    return histogram.buckets[-1][1]


def test_buckets_count_what_is_at_most_their_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(value)
    assert histogram.buckets == (("0.1", 2), ("1.0", 3), ("+Inf", 4))
    assert histogram.sum == pytest.approx(3.65)


def test_registrations_and_their_failures_are_counted(agent: Agent, counted: Counters) -> None:
    agent.tell(
        RegistrationFailed(resource="r", error="refused"),
        REGISTERED,
        REGISTERED,
    )
    assert counted.registrations == {("r", "failure"): 1, ("r", "success"): 2}


def test_transitions_count_devices_by_cause_and_not_those_that_appear_or_disappear(
    agent: Agent, counted: Counters
) -> None:
    changes = (*DOWN, Change("c", None, SICK), Change("d", SICK, None))
    agent.tell(*health_events("r", changes), *health_events("r", (Change("a", SICK, HEALTHY),)))
    assert counted.transitions == {("r", "Unhealthy", "PF down"): 2, ("r", "Healthy", ""): 1}


def test_allocations_are_counted_with_their_time(agent: Agent, counted: Counters) -> None:
    agent.tell(DevicesAllocated("r", ("a", "b")))
    agent.tell(AllocationMade(resource="r", devices="a,b", nodes="", cdi="", took_ms=2.5))
    agent.tell(AllocationRefused(resource="r", error="gone"))
    assert counted.allocated == {"r": 2}
    assert counted.allocations == {("r", "success"): 1, ("r", "refused"): 1}
    assert counted.allocation_s.sum == pytest.approx(0.0025)


def test_the_time_when_a_configuration_was_loaded_is_recorded(
    agent: Agent, counted: Counters
) -> None:
    agent.tell(ConfigReloaded(path="f", pools=1))
    assert counted.config_loaded_at > 0


@pytest.mark.looptime
async def test_a_push_is_timed_from_the_event_that_caused_it(
    agent: Agent, counted: Counters
) -> None:
    await asyncio.sleep(0.007)
    agent.tell(pushed(seen_at=0.0))
    assert counted.push_s.sum == pytest.approx(0.007)
    assert counted.pushed == {"r": 1}


def test_a_push_without_a_causing_event_is_counted_but_not_timed(
    agent: Agent, counted: Counters
) -> None:
    agent.tell(pushed())
    assert observations(counted.push_s) == 0
    assert counted.pushed == {"r": 1}


def test_nothing_is_counted_before_or_after(agent: Agent) -> None:
    agent.tell(REGISTERED)
    with agent.recorder as counters:
        pass
    agent.tell(REGISTERED)
    agent.tell(AllocationRefused(resource="r", error="gone"))
    assert counters.registrations == {}
    assert counters.allocations == {}

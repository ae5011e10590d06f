from __future__ import annotations

from agent.health.outlook import Change
from agent.health.records import HEALTHY, Cause, Health
from agent.standing.changes import HealthDates
from agent.state_events import HealthChanged

SICK = Health(Cause.PF_DOWN)


def dates(*changes: Change) -> dict[str, float]:
    """The dates after these changes, which happen at 1, 2, 3 ..."""
    clock = iter(range(1, len(changes) + 1))
    found = HealthDates(clock=lambda: float(next(clock)))
    for change in changes:
        found.note(HealthChanged("r", (change,)))
    return dict(found.changed_at)


def test_a_device_that_comes_healthy_has_no_date() -> None:
    assert dates(Change("a", None, HEALTHY)) == {}


def test_a_device_that_comes_unhealthy_has_been_so_since_then() -> None:
    assert dates(Change("a", None, SICK)) == {"a": 1.0}


def test_the_newest_change_counts() -> None:
    assert dates(Change("a", HEALTHY, SICK), Change("a", SICK, HEALTHY)) == {"a": 2.0}


def test_a_device_that_goes_is_forgotten() -> None:
    assert dates(Change("a", HEALTHY, SICK), Change("a", SICK, None)) == {}

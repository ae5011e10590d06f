from __future__ import annotations

from agent.change_log import health_events
from agent.events.devices import DevicesChanged, DevicesHealthy
from agent.health.pool_health import Change
from agent.health.verdict import HEALTHY, Cause, Health
from agent.status.health_since import LastTransitions

SICK = Health(Cause.PF_DOWN)


def event_of(resource: str, change: Change) -> DevicesChanged | DevicesHealthy:
    (event,) = health_events(resource, (change,))
    return event


def dates(*changes: Change) -> dict[str, float]:
    """The dates after these changes, which happen at 1, 2, 3 ..."""
    clock = iter(range(1, len(changes) + 1))
    found = LastTransitions(clock=lambda: float(next(clock)))
    for change in changes:
        found.note(event_of("r", change))
    return dict(found.changed_at)


def test_the_health_of_a_device_that_was_never_unhealthy_is_dated_by_its_appearance() -> None:
    assert dates(Change("a", None, HEALTHY)) == {"a": 1.0}


def test_a_device_that_appears_unhealthy_is_unhealthy_since_then() -> None:
    assert dates(Change("a", None, SICK)) == {"a": 1.0}


def test_the_newest_change_counts() -> None:
    assert dates(Change("a", HEALTHY, SICK), Change("a", SICK, HEALTHY)) == {"a": 2.0}


def test_a_device_that_disappears_is_forgotten() -> None:
    assert dates(Change("a", HEALTHY, SICK), Change("a", SICK, None)) == {}


def test_a_device_that_moves_has_the_date_of_its_new_pool_in_either_order() -> None:
    comes = event_of("new", Change("a", None, HEALTHY))
    goes = event_of("old", Change("a", HEALTHY, None))
    for order in ((comes, goes), (goes, comes)):
        found = LastTransitions(clock=lambda: 5.0)
        found.note(event_of("old", Change("a", None, HEALTHY)))
        for event in order:
            found.note(event)
        assert found.changed_at == {"a": 5.0}

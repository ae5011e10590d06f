"""The type checker finds wrong fields; these tests find events that are unused or undocumented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import agent
from agent.events.catalog import catalog
from agent.events.event import LogEvent, RepeatedEvent
from agent.events.plugin import ListPushed, StreamLost

EVENTS = catalog()
SOURCE = Path(agent.__file__).parent
EACH = pytest.mark.parametrize("event", EVENTS.values(), ids=list(EVENTS))


@pytest.fixture(scope="module")
def source() -> str:
    files = (p for p in SOURCE.rglob("*.py") if p.parent != SOURCE / "events")
    return "\n".join(path.read_text() for path in files)


def classes() -> list[str]:
    events = (p.read_text() for p in (SOURCE / "events").glob("*.py"))
    return re.findall(r'^class .*?name="([\w.]+)"', "\n".join(events), re.MULTILINE | re.DOTALL)


def test_no_two_events_share_a_name() -> None:
    assert sorted(classes()) == sorted(EVENTS)


@EACH
def test_each_event_is_emitted_somewhere(event: type[LogEvent], source: str) -> None:
    assert re.search(rf"(?<!import )\b{event.__name__}\b(?=[( ]|,\n|: )", source)


@EACH
def test_each_event_can_be_documented(event: type[LogEvent]) -> None:
    fields = event.field_names()
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", event.name)
    assert re.match(r"[A-Z]|--log", event.meaning())
    assert event.meaning().endswith(".")
    assert len(set(fields)) == len(fields)
    assert not {"time", "level", "event", "traceback"} & set(fields)
    assert not {"name", "level", "fields"} & set(event.__annotations__)


def test_an_event_has_the_name_the_level_and_the_fields_that_its_class_declares() -> None:
    assert (StreamLost.name, StreamLost.level) == ("plugin.stream_lost", 30)
    assert StreamLost.field_names() == ("resource", "generation", "times")
    assert StreamLost(resource="r", generation=1).fields == {"resource": "r", "generation": 1}


def test_a_field_for_subscribers_alone_is_not_logged() -> None:
    event = ListPushed(resource="r", healthy=1, unhealthy=0, sequence=2, seen_at=3.0)
    assert event.seen_at == 3.0
    assert list(event.fields) == ["resource", "healthy", "unhealthy", "sequence"]
    assert "seen_at" not in ListPushed.field_names()


def test_an_event_is_a_frozen_value() -> None:
    event = StreamLost(resource="r", generation=1)
    with pytest.raises(AttributeError, match="frozen"):
        event.generation = 2  # type: ignore[misc]
    assert event == StreamLost(resource="r", generation=1)
    assert hash(event) == hash(StreamLost(resource="r", generation=1))
    assert event != StreamLost(resource="r", generation=2)
    assert event.times is None
    assert event.repeated(10).fields == {"resource": "r", "generation": 1, "times": 10}
    assert repr(event) == "StreamLost(resource='r', generation=1)"


def test_only_events_that_may_repeat_have_a_count() -> None:
    for event in EVENTS.values():
        assert ("times" in event.field_names()) == issubclass(event, RepeatedEvent)

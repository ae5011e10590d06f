from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import logs
from agent.errors import UsageError
from agent.events.agent import AgentStopped
from agent.events.event import LogEvent
from agent.events.kubelet import LockUnavailable
from agent.events.netlink import NetlinkLost
from agent.events.plugin import ListPushed, PluginRemoved
from agent.events.pools import PoolNote
from tests.support.log_lines import LogLines

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS = ("resource", "note")


@pytest.fixture(autouse=True)
def _restored(log_lines: LogLines) -> None:
    """Each test configures the stream as it likes."""


def written(
    form: str, event: type[LogEvent] = PoolNote, level: int = logging.DEBUG, /, **fields: object
) -> str:
    stream = io.StringIO()
    logs.configure(level, form, stream)
    logs.emit(event(**fields))
    return stream.getvalue()


def text(**fields: object) -> str:
    """One line of the text form without time and line end."""
    line = written("text", **fields)
    assert STAMP.fullmatch(line[:24])
    assert line.endswith("\n")
    return line[25:-1]


def test_the_text_form_is_time_level_event_and_pairs() -> None:
    assert (
        text(resource="intel.com/vf", note="x") == "WARNING pool.note resource=intel.com/vf note=x"
    )


def test_the_json_form_is_one_object_with_time_level_event_and_the_fields() -> None:
    line = written("json", resource="intel.com/vf", note="two words")
    record = json.loads(line)
    assert list(record) == ["time", "level", "event", "resource", "note"]
    assert STAMP.fullmatch(record.pop("time"))
    assert record == {
        "level": "warning",
        "event": "pool.note",
        "resource": "intel.com/vf",
        "note": "two words",
    }
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("0000:3b:02.0,0000:3b:02.1", "0000:3b:02.0,0000:3b:02.1"),
        ("ü", "ü"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("back\\slash", r'"back\\slash"'),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (0.123456, "0.1235"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (("b", "a"), '["b", "a"]'),
        (frozenset({"b", "a"}), '["a", "b"]'),
        ({"k": 1}, '{"k": 1}'),
        (Path("/sys"), "/sys"),
        (OSError("no such thing"), '"no such thing"'),
    ],
)
def test_values_are_plain_if_that_is_safe_and_json_otherwise(value: object, shown: str) -> None:
    assert text(note=value) == f"WARNING pool.note note={shown}"


@pytest.mark.parametrize(
    "odd",
    ["\n", "\r\n", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\ud800", "\u00a0"],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_cannot_break_or_forge_a_line(form: str, odd: str) -> None:
    line = written(form, note=f"a{odd}2026-01-01 ERROR forged")
    assert line.count("\n") == 1
    assert line.isascii()
    assert line[:-1].isprintable()


@given(st.dictionaries(st.sampled_from(FIELDS), st.text()))
def test_a_field_of_any_content_is_on_one_line(fields: dict[str, str]) -> None:
    line = written("json", **fields)
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert {k: v for k, v in json.loads(line).items() if k in FIELDS} == fields
    shown = written("text", **fields)
    assert len(shown.splitlines()) == 1
    assert shown[:-1].isprintable()


@given(st.recursive(st.floats() | st.booleans() | st.none() | st.text(), st.lists, max_leaves=5))
def test_json_lines_are_strict_json_for_any_value(value: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(written("json", note=value), parse_constant=refuse)


def test_events_below_the_level_are_not_written() -> None:
    assert written("text", ListPushed, logging.INFO, resource="vf") == ""
    assert written("text", PluginRemoved, logging.INFO, resource="vf") != ""
    assert written("text", PluginRemoved, logging.ERROR, resource="vf") == ""


def test_without_a_stream_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging.INFO, "text")
    logs.emit(AgentStopped())
    assert capsys.readouterr().err.endswith(" INFO    agent.stopped\n")


def test_a_new_configuration_replaces_the_old_one() -> None:
    first = io.StringIO()
    logs.configure(logging.INFO, "text", first)
    assert written("text", AgentStopped).count("\n") == 1
    assert first.getvalue() == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_kept_with_its_line(form: str) -> None:
    stream = io.StringIO()
    logs.configure(logging.INFO, form, stream)
    logger = logging.getLogger("sriov-agent")
    logger.error("agent.failed", exc_info=ZeroDivisionError("bug"))
    line = stream.getvalue()
    shown = json.loads(line)["traceback"] if form == "json" else line
    assert "ZeroDivisionError: bug" in shown
    assert line.count("\n") == 1 or form == "text"


def test_repeats_are_counted_and_logged_at_powers_of_ten(log_lines: LogLines) -> None:
    logs.configure(logging.DEBUG, "json", log_lines.stream)
    for _ in range(1000):
        logs.emit_once(LockUnavailable(error="e"), "key")
    assert log_lines.fields("lock.unavailable") == [
        {"error": "e"},
        {"error": "e", "times": 10},
        {"error": "e", "times": 100},
        {"error": "e", "times": 1000},
    ]


def test_each_key_and_each_event_is_counted_apart(log_lines: LogLines) -> None:
    logs.configure(logging.DEBUG, "json", log_lines.stream)
    for key in ("a", "b", "a"):
        logs.emit_once(LockUnavailable(error=key), key)
        logs.emit_once(NetlinkLost(error=key, failures=1), key)
    assert [f["error"] for f in log_lines.fields("lock.unavailable")] == ["a", "b"]
    assert [f["error"] for f in log_lines.fields("netlink.lost")] == ["a", "b"]


def test_a_forgotten_event_is_logged_again(log_lines: LogLines) -> None:
    logs.configure(logging.DEBUG, "json", log_lines.stream)
    for _ in range(2):
        logs.emit_once(LockUnavailable(error="a"), "a")
        logs.emit_once(LockUnavailable(error="b"), "b")
        logs.forget(LockUnavailable, "a")
        logs.forget(LockUnavailable, "never told")
    assert [f["error"] for f in log_lines.fields("lock.unavailable")] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("debug", logging.DEBUG),
        ("trace", logging.DEBUG),
        ("INFO", logging.INFO),
        (" Warning ", logging.WARNING),
        ("warn", logging.WARNING),
        ("error", logging.ERROR),
        ("panic", logging.ERROR),
        ("fatal", logging.ERROR),
        ("-1", logging.ERROR),
        ("0", logging.INFO),
        ("3", logging.INFO),
        ("4", logging.DEBUG),
        ("10", logging.DEBUG),
    ],
)
def test_levels_are_read_by_name_and_by_number(word: str, level: int) -> None:
    assert logs.parse_level(word) == level


@pytest.mark.parametrize("word", ["loud", "", "1.5", "0x4"])
def test_another_level_is_refused_with_the_known_ones(word: str) -> None:
    with pytest.raises(UsageError, match=r"neither a number nor one of debug, error, fatal"):
        logs.parse_level(word)

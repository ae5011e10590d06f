"""Whatever is logged is one line that says what it is: nothing in it can forge or hide another."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import library_logs, logs
from agent.events.agent import AgentFailed
from agent.events.pools import PoolNote
from tests.support.hostile import TEXTS, turns_the_line
from tests.support.log_lines import LogLines, forget_all

EVENT, FIELD = "pool.note", "note"
HEAD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (WARNING|ERROR  ) ([a-z_.]+)")
VALUES = st.recursive(
    TEXTS | st.integers() | st.floats() | st.none() | st.builds(OSError, TEXTS),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.tuples(inner),
    max_leaves=5,
)
FORMS = pytest.mark.parametrize("form", ["text", "json"])


@pytest.fixture(autouse=True)
def _restored(log_lines: LogLines) -> None:
    """Each test configures the stream as it likes."""


@contextmanager
def stream(form: str) -> Iterator[io.StringIO]:
    written = io.StringIO()
    logs.configure(logging.DEBUG, form, written)
    yield written


def is_safe(line: str) -> bool:
    """Whether a terminal shows the line as it is, from left to right."""
    return line.isprintable() and not any(map(turns_the_line, line))


@FORMS
@given(value=VALUES)
def test_an_event_is_one_safe_line_whatever_its_fields_hold(form: str, value: object) -> None:
    with stream(form) as written:
        logs.emit(PoolNote(resource="r", note=cast("str", value)))
    (line,) = written.getvalue().splitlines()
    assert written.getvalue() == f"{line}\n"
    assert is_safe(line)
    line.encode("utf-8")


@given(text=TEXTS)
def test_a_text_line_has_only_the_fields_with_a_value(text: str) -> None:
    with stream("text") as written:
        logs.emit(PoolNote(resource=text, note=text))
    line = written.getvalue()[:-1]
    head, _, rest = line.partition(" resource=")
    assert HEAD.fullmatch(head)
    value = rest[: (len(rest) - len(" note=")) // 2]
    assert rest == f"{value} note={value}"
    assert value == text or json.loads(value) == text


@given(text=TEXTS)
def test_a_json_line_contains_the_text_unchanged(text: str) -> None:
    with stream("json") as written:
        logs.emit(PoolNote(resource="r", note=text))
    assert json.loads(written.getvalue())[FIELD] == text
    assert written.getvalue().isascii()


@FORMS
@given(message=TEXTS)
def test_no_line_of_a_traceback_looks_like_an_event(form: str, message: str) -> None:
    error = ExceptionGroup("several", [ValueError(message), OSError(2, message, message)])
    error.add_note(message)
    with stream(form) as written:
        logs.emit_crash(AgentFailed(error=repr(error)), error)
    first, *others = written.getvalue().splitlines()
    assert is_safe(first)
    assert all(is_safe(line) and line.startswith("  | ") for line in others)
    assert bool(others) == (form == "text")
    if form == "json":
        assert "several" in json.loads(first)["traceback"]


@given(name=TEXTS, message=TEXTS)
def test_a_library_log_record_is_one_event(name: str, message: str) -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        library_logs.follow_libraries()
        with stream("json") as written:
            forget_all()
            library = logging.getLogger(f"library.{name}")
            library.error("it said %s", message, exc_info=ValueError(message))
    finally:
        root.handlers[:] = before
    (line,) = written.getvalue().splitlines()
    told = json.loads(line)
    assert (told["event"], told["message"]) == ("log.library", f"it said {message}")
    assert told["error"] == repr(ValueError(message))


def test_repeated_library_log_records_are_counted(log_lines: LogLines) -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        library_logs.follow_libraries()
        for number in range(10):
            logging.getLogger("library").warning("attempt %d", number)
            logging.getLogger("library").info("not worth telling")
    finally:
        root.handlers[:] = before
    assert [f.get("times") for f in log_lines.fields("log.library")] == [None, 10]


CRASH = r"""
import logging, sys
import agent.cli.run
from agent.cli.dispatch import main
async def crash(_):
    logging.getLogger("some.library").error("line one\nline two \x1b[31m")
    raise ValueError("ens1\n2026-01-01T00:00:00.000Z ERROR   agent.failed error=forged\x1b[2J")
agent.cli.run.run_agent = crash
main(["run", "--log-format", sys.argv[1]])
"""


@FORMS
def test_a_process_that_ends_by_an_unexpected_exception_writes_only_log_lines(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH, form], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert all(map(is_safe, lines))
    heads = [line for line in lines if not line.startswith("  | ")]
    assert len(heads) == 2
    if form == "json":
        assert [json.loads(h)["event"] for h in heads] == ["log.library", "agent.failed"]
    else:
        found = [HEAD.match(line) for line in heads]
        assert [f and f[2] for f in found] == ["log.library", "agent.failed"]
        assert "forged" in done.stderr

from __future__ import annotations

import io
import json
import logging

from agent import logs
from agent.cli.watch import document, line
from agent.event_history import Entry
from agent.events.pools import PoolNote
from tests.support.log_lines import LogLines

FIELDS: dict[str, object] = {"resource": "r", "note": "two words", "count": 3}
ENTRY = Entry(1, 1_700_000_000.25, "warning", "pool.note", FIELDS)


def test_an_event_reads_as_in_the_text_log() -> None:
    assert line(ENTRY) == (
        '2023-11-14T22:13:20.250Z WARNING pool.note resource=r note="two words" count=3'
    )


def test_an_event_as_json_is_the_json_log() -> None:
    assert document(ENTRY) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "event": "pool.note",
        "resource": "r",
        "note": "two words",
        "count": 3,
    }


def test_both_forms_are_what_the_log_itself_writes(log_lines: LogLines) -> None:
    for form, make in (("text", line), ("json", lambda e: json.dumps(document(e)))):
        out = io.StringIO()
        logs.configure(logging.DEBUG, form, out)
        logs.emit(PoolNote(resource="r", note="two words"))
        written = out.getvalue().rstrip("\n")
        made = make(Entry(1, 0.0, "warning", "pool.note", {"resource": "r", "note": "two words"}))
        assert made[24:] == written[24:] if form == "text" else made[40:] == written[40:]

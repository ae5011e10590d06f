"""The log stream of a test, as the records that a collector of logs would read."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent import logs
from agent.events.catalog import catalog

_EVENTS = catalog()
_OWN = {"time", "level", "event"}


class LogLines:
    """What was logged so far; asking also checks that each event has only declared fields."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, Any]]:
        """Every line."""
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        for line in lines:
            assert line.keys() - _OWN <= set(_EVENTS[line["event"]].field_names()), line
        return lines

    def events(self) -> list[str]:
        """The names of the events, in order."""
        return [line["event"] for line in self.all()]

    def fields(self, event: str) -> list[dict[str, Any]]:
        """The fields of each line of one event."""
        return [
            {key: value for key, value in line.items() if key not in _OWN}
            for line in self.all()
            if line["event"] == event
        ]


def forget_all() -> None:
    """Restart the counts of events that repeat, as in a fresh process."""
    logs._counts.clear()


@contextmanager
def captured() -> Iterator[LogLines]:
    """Everything that is logged inside, debug level too; counting of repeats starts anew."""
    logger = logging.getLogger("sriov-agent")
    before = logger.handlers[:], logger.level, logger.propagate
    lines = LogLines()
    forget_all()
    logs.configure(logging.DEBUG, "json", lines.stream)
    try:
        yield lines
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
        forget_all()

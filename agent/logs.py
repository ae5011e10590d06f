"""The log stream: one event per line, as text for people or as JSON.

Each event is a class in :mod:`agent.events`. The line has the event's name, level and fields.

A process has one log stream, a logger of the standard library. Its receivers and the counts of
repeated events belong to it, so they are module state, as the logger is: whatever can fail logs
without getting the log as an argument.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

from agent.errors import UsageError
from agent.events.event import LogEvent, RepeatedEvent
from agent.log_writer import BackgroundHandler

_LOGGER = logging.getLogger("sriov-agent")
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.ERROR,
    "panic": logging.ERROR,
}
_BARE = re.compile(r"[!#-<>-\[\]-~\u00a1-\u00ac\u00ae-\u024f]+")
"""Printable characters up to the end of Latin, without blank, quote, ``=`` and backslash."""
_counts: dict[tuple[type[RepeatedEvent], str], int] = {}
Receive = Callable[[LogEvent], None]
_followers: list[Receive] = []


def follow(receive: Receive) -> Callable[[], None]:
    """Call ``receive`` with every event of every level; it must not block nor raise.

    Returns the function that ends this.
    """
    _followers.append(receive)
    return lambda: _followers.remove(receive)


def emit(event: LogEvent) -> None:
    """Write an event if its level is on; the line is formatted only then."""
    for receive in tuple(_followers):
        receive(event)
    if _LOGGER.isEnabledFor(event.level):
        _LOGGER.log(event.level, event.name, extra={"fields": event.fields})


def emit_crash(event: LogEvent, error: BaseException) -> None:
    """Write an event with the traceback of ``error``, which ends the process."""
    for receive in tuple(_followers):
        receive(event)
    _LOGGER.log(event.level, event.name, exc_info=error, extra={"fields": event.fields})


def emit_once(event: RepeatedEvent, key: str) -> None:
    """Write an event the first time it occurs with ``key``; repetitions are only counted.

    The 10th, 100th, 1000th ... occurrence is written with the count, so no fault is forgotten.
    """
    counted = type(event), key
    count = _counts[counted] = _counts.get(counted, 0) + 1
    if count == 1:
        emit(event)
    elif count >= 10 and str(count).strip("0") == "1":
        emit(event.repeated(count))


def forget(event: type[RepeatedEvent], key: str) -> None:
    """Restart the count of an event: its cause is gone, and the next occurrence is written."""
    _counts.pop((event, key), None)


def parse_level(text: str) -> int:
    """Parse a level: a name, or a klog number (below 0 error, 0 to 3 info, from 4 debug).

    Raises UsageError that quotes the text.
    """
    name = text.strip().lower()
    if name in _LEVELS:
        return _LEVELS[name]
    try:
        number = int(name)
    except ValueError:
        known = ", ".join(sorted(_LEVELS))
        raise UsageError(f"--log-level {text!r} is neither a number nor one of {known}") from None
    if number < 0:
        return logging.ERROR
    return logging.INFO if number < 4 else logging.DEBUG


def configure(
    level: int,
    form: str,
    stream: TextIO | None = None,
    *,
    dropped_record: Callable[[int], logging.LogRecord] | None = None,
) -> None:
    """Send the log stream to ``stream`` (standard error if None) as ``text`` or ``json``.

    With ``dropped_record``, a thread writes to standard error, so that ``emit`` never waits for its
    reader; the function makes the record that reports the number of dropped lines.
    """
    handler = _handler(stream, dropped_record)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    _LOGGER.handlers[:] = [handler]
    _LOGGER.setLevel(level)
    _LOGGER.propagate = False


def _handler(
    stream: TextIO | None, dropped_record: Callable[[int], logging.LogRecord] | None
) -> logging.Handler:
    if dropped_record is not None:
        with suppress(OSError):  # without a descriptor, as in tests
            return BackgroundHandler(sys.stderr.fileno(), dropped_record)
    return logging.StreamHandler(stream or sys.stderr)


def record_of(event: LogEvent) -> logging.LogRecord:
    """The record of an event for the log stream alone: no follower receives it."""
    extra = {"fields": event.fields}
    return _LOGGER.makeRecord(_LOGGER.name, event.level, "", 0, event.name, (), None, extra=extra)


def flush() -> None:
    """Wait for a limited time until all lines are written; for the end of the process."""
    for handler in _LOGGER.handlers:
        if isinstance(handler, BackgroundHandler):
            handler.wait()


def dropped() -> int:
    """The number of lines dropped since the start because nothing read the log stream."""
    return sum(h.dropped for h in _LOGGER.handlers if isinstance(h, BackgroundHandler))


def stamp(moment: float) -> str:
    """Format a time (s since 1970) as in the log: UTC, with milliseconds."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{seconds}.{int(moment % 1 * 1000):03d}Z"


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def plain(value: object) -> object:
    """Convert a value to JSON types: collections become lists, and other types become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [plain(v) for v in items]
    return str(value)


def text_value(value: object) -> str:
    """Format a field's value for the text format: bare if it is safe, else as a JSON string.

    Letters beyond Latin are escaped: some look like other letters, some reverse the line.
    """
    known = plain(value)
    if isinstance(known, str) and _BARE.fullmatch(known):
        return known
    if isinstance(known, float):
        return f"{known:.4g}"
    return json.dumps(known, ensure_ascii=True)


class _TextFormatter(logging.Formatter):
    """``time LEVEL event key=value ...``: values with spaces or odd characters are JSON strings.

    The lines of a traceback follow, each with a mark, so that none can be mistaken for an event.
    """

    def format(self, record: logging.LogRecord) -> str:
        pairs = "".join(f" {k}={text_value(v)}" for k, v in _fields(record).items())
        line = f"{stamp(record.created)} {record.levelname:<7} {record.getMessage()}{pairs}"
        if record.exc_info:
            traceback = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n  | {_escaped(part)}" for part in traceback)
        return line


def _escaped(text: str) -> str:
    """Escape characters that could change how a terminal shows the text; keep all others."""
    return "".join(c if c == " " or _BARE.match(c) or c in '"=\\' else ascii(c)[1:-1] for c in text)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``event``, then the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update({k: plain(v) for k, v in _fields(record).items()})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)

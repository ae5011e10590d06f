"""The log stream: one event per line, a stable name with fields, as text for people or as JSON.

Each event is a class in :mod:`agent.events`. The line has the event's name, level and fields.
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


def forget_all() -> None:
    """Restart all counts."""
    _counts.clear()


def parse_level(text: str) -> int:
    """A level by name, or by number as klog counts: 0 is info, 4 and more is debug, below 0 error.

    Raises UsageError naming the text.
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
    say_dropped: Callable[[int], logging.LogRecord] | None = None,
) -> None:
    """Send the log stream to ``stream`` (standard error if None) as ``text`` or ``json``.

    With ``say_dropped``, standard error is written in a thread, and emitting never waits for its
    reader; the function makes the record that tells how many lines were dropped.
    """
    handler = _handler(stream, say_dropped)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    _LOGGER.handlers[:] = [handler]
    _LOGGER.setLevel(level)
    _LOGGER.propagate = False


def _handler(
    stream: TextIO | None, say_dropped: Callable[[int], logging.LogRecord] | None
) -> logging.Handler:
    if say_dropped is not None:
        with suppress(OSError):  # it has no descriptor, such as that of a test
            return BackgroundHandler(sys.stderr.fileno(), say_dropped)
    return logging.StreamHandler(stream or sys.stderr)


def record_of(event: LogEvent) -> logging.LogRecord:
    """The record of an event for the log stream alone: no follower receives it."""
    extra = {"fields": event.fields}
    return _LOGGER.makeRecord(_LOGGER.name, event.level, "", 0, event.name, (), None, extra=extra)


def flush() -> None:
    """Wait for a moment until what was emitted is written; for the end of the process."""
    for handler in _LOGGER.handlers:
        if isinstance(handler, BackgroundHandler):
            handler.wait()


def dropped() -> int:
    """How many lines were dropped since the start, because nobody read the log stream."""
    return sum(h.dropped for h in _LOGGER.handlers if isinstance(h, BackgroundHandler))


def stamp(moment: float) -> str:
    """A time (s since 1970) as the log writes it: UTC, with milliseconds."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{seconds}.{int(moment % 1 * 1000):03d}Z"


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def plain(value: object) -> object:
    """A value as JSON knows it: sequences stay, everything else that is foreign becomes text."""
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
    """A field's value as the text form shows it: bare, or as a JSON string where that is safer.

    Letters beyond Latin are escaped: some look like others, and some turn the line around.
    """
    known = plain(value)
    if isinstance(known, str) and _BARE.fullmatch(known):
        return known
    if isinstance(known, float):
        return f"{known:.4g}"
    return json.dumps(known, ensure_ascii=True)


class _TextFormatter(logging.Formatter):
    """``time LEVEL event key=value ...``: values with spaces or odd characters are JSON strings.

    The lines of a traceback stand below it, each marked: no text in them can pass for an event.
    """

    def format(self, record: logging.LogRecord) -> str:
        pairs = "".join(f" {k}={text_value(v)}" for k, v in _fields(record).items())
        line = f"{stamp(record.created)} {record.levelname:<7} {record.getMessage()}{pairs}"
        if record.exc_info:
            told = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n  | {_escaped(part)}" for part in told)
        return line


def _escaped(text: str) -> str:
    """Text that a person shall read as it is, as far as its characters do nothing else."""
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

"""Turns log records of libraries into events of the agent's log stream.

Otherwise the logging module would print them unescaped between the agent's lines.
"""

from __future__ import annotations

import logging

from agent import logs
from agent.events.agent import LibraryWarned


class _LibraryLines(logging.Handler):
    """Logs each record as an event; repetitions from one place in the code are counted."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        logs.emit_once(
            LibraryWarned(
                library=record.name,
                message=record.getMessage(),
                error=None if error is None else repr(error),
            ),
            f"{record.pathname}:{record.lineno}",
        )


def follow_libraries() -> None:
    """Log the warnings and errors of all libraries as events."""
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLines(logging.WARNING)]

"""What libraries log comes in the agent's own log stream, as one line that is safe to show.

Without this the logging module would print it raw to standard error, between the agent's lines.
"""

from __future__ import annotations

import logging

from agent import logs
from agent.events.agent import LibraryWarned


class _LibraryLines(logging.Handler):
    """Turns records of libraries into events; what comes again from one place is counted."""

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
    """From now on, warnings and errors of libraries are events of the log stream."""
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLines(logging.WARNING)]

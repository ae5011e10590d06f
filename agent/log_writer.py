"""Writes the log stream in a thread, so that the agent never waits for the reader of its log.

Standard error is a pipe to the container runtime or a socket of the system log. When it is full, a
write blocks until the reader continues. Meanwhile, lines wait in a bounded queue. Lines that do not
fit are dropped and counted, and the count is logged when the reader continues.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

MAX_BYTES = 1 << 20
"""Size of the queue."""
FLUSH_LIMIT_S = 0.3
"""How long the end of the process waits for the last lines to be written."""


class BackgroundHandler(logging.Handler):
    """A handler that never waits; ``dropped_record`` makes the record for a number of lines."""

    def __init__(self, descriptor: int, dropped_record: Callable[[int], logging.LogRecord]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._dropped_record = dropped_record
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped_unreported = 0
        self._is_writing = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Number of lines dropped since the start."""

    def emit(self, record: logging.LogRecord) -> None:
        """Append the line of a record to the queue."""
        line = self._line(record)
        with self._changed:
            if self._bytes + len(line) > MAX_BYTES:
                self.dropped += 1
                self._dropped_unreported += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()
        if self._thread is None:
            self._start()

    def _line(self, record: logging.LogRecord) -> bytes:
        return (self.format(record) + "\n").encode(errors="backslashreplace")

    def _start(self) -> None:
        """Start the thread; if that fails, write the lines that do not block."""
        thread = threading.Thread(target=self._work, name="log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._write_without_waiting()
        else:
            self._thread = thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                line = self._take()
                self._is_writing = True
            self._write(line)
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()

    def _take(self) -> bytes:
        """Remove and return the oldest line; the count of dropped lines follows the last one."""
        line = self._lines.popleft()
        self._bytes -= len(line)
        if not self._lines and self._dropped_unreported:
            line += self._line(self._dropped_record(self._dropped_unreported))
            self._dropped_unreported = 0
        return line

    def _write(self, line: bytes) -> None:
        try:
            while line:
                select.select((), (self._descriptor,), ())
                line = line[self._write_part(line) :]
        except OSError:  # the reader closed its end
            return

    def _write_part(self, line: bytes) -> int:
        # A pipe that is ready accepts this much without blocking (POSIX: PIPE_BUF).
        return os.write(self._descriptor, line[: select.PIPE_BUF])

    def _write_without_waiting(self) -> None:
        while self._lines and select.select((), (self._descriptor,), (), 0)[1]:
            with self._changed:
                self._write(self._take())

    def wait(self, limit_s: float = FLUSH_LIMIT_S) -> None:
        """Wait until all lines are written, no longer than ``limit_s``."""
        deadline_s = time.monotonic() + limit_s
        with self._changed:
            while self._thread is not None and (self._lines or self._is_writing):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    return

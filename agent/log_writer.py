"""Writes the log stream in a thread, so that a reader who stops reading never stops the agent.

Standard error is a pipe to the container runtime or a socket of the system's log: once it is full,
a write waits until somebody reads. Lines wait in a bounded queue meanwhile; what finds no room
there is dropped, counted, and said as soon as lines flow again.
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
"""Of lines that wait to be written."""
FLUSH_LIMIT_S = 0.3
"""How long the end of the process waits for the last lines."""


class BackgroundHandler(logging.Handler):
    """A handler that never waits; ``say_dropped`` makes the record that tells a number of lines."""

    def __init__(self, descriptor: int, say_dropped: Callable[[int], logging.LogRecord]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._say_dropped = say_dropped
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped_since_said = 0
        self._is_writing = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Lines that found no room, since the start."""

    def emit(self, record: logging.LogRecord) -> None:
        """Put a record's line into the queue."""
        line = self._line(record)
        with self._changed:
            if self._bytes + len(line) > MAX_BYTES:
                self.dropped += 1
                self._dropped_since_said += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()
        if self._thread is None:
            self._start()

    def _line(self, record: logging.LogRecord) -> bytes:
        return (self.format(record) + "\n").encode(errors="backslashreplace")

    def _start(self) -> None:
        """Have the thread; while none can be made, write here what can be written at once."""
        thread = threading.Thread(target=self._work, name="log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._write_what_is_taken()
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
        """The oldest line; behind the last one, how many had to be dropped."""
        line = self._lines.popleft()
        self._bytes -= len(line)
        if not self._lines and self._dropped_since_said:
            line += self._line(self._say_dropped(self._dropped_since_said))
            self._dropped_since_said = 0
        return line

    def _write(self, line: bytes) -> None:
        try:
            while line:
                select.select((), (self._descriptor,), ())
                line = line[self._write_part(line) :]
        except OSError:  # nobody is there to read, nor will be
            return

    def _write_part(self, line: bytes) -> int:
        # A pipe that is ready takes so much at once (POSIX: PIPE_BUF).
        return os.write(self._descriptor, line[: select.PIPE_BUF])

    def _write_what_is_taken(self) -> None:
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

"""A process whose standard error is followed line by line, and waited for: never after its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

T = TypeVar("T")
LAST_LINES = 50


class FollowedProcess:
    """A context manager that starts ``command``, and stops it by SIGTERM if it still runs."""

    patience_s = 30.0

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.command = list(command)
        self._env = {**os.environ, **(env or {})}
        self._said = threading.Condition()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._ended = False

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.PIPE, text=True, env=self._env
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        self._reader.join(self.patience_s)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(self.patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def take(self, line: str) -> None:
        """Note what a line tells; nobody waits meanwhile."""

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self._last.append(line)
                self.take(line)
                self._said.notify_all()
        with self._said:
            self._ended = True
            self._said.notify_all()

    def wait_until_found(self, what: str, find: Callable[[], T | None]) -> T:
        """What ``find`` finds, now or after a line to come; it fails as soon as none can come."""
        with self._said:
            self._said.wait_for(lambda: self._ended or find() is not None, self.patience_s)
            found = find()
            if found is None:
                raise AssertionError(f"{self._fate()} {what}:\n{''.join(self._last)}")
            return found

    def _fate(self) -> str:
        if not self._ended:
            return f"the agent ran for {self.patience_s:g} s without"
        return f"the agent ended with status {self.process.wait(self.patience_s)} without"

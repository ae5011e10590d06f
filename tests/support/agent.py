"""The agent as a process of its own: started like an operator would, its log stream followed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 30.0

LogLine = dict[str, Any]


class AgentProcess:
    """``sriov-agent run`` with JSON logs; a context manager that stops it by SIGTERM."""

    def __init__(
        self,
        host_root: Path,
        config_file: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.command = [
            *wrapper,
            *(sys.executable, "-m", "agent", "run", "--log-format", "json"),
            *("--host-root", str(host_root), "--config-file", str(config_file)),
            *arguments,
        ]
        self.log: list[LogLine] = []
        self.raw: list[str] = []
        self._env = {**os.environ, **(env or {})}
        self._said = threading.Condition()

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.PIPE, text=True, env=self._env
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.raw.append(line)
                if line.startswith("{"):
                    self.log.append(json.loads(line))
                self._said.notify_all()

    def wait_for(self, event: str, matches: Callable[[LogLine], bool] = bool) -> LogLine:
        """The first log line with this event name that matches, now or later."""

        def found() -> LogLine | None:
            lines = (line for line in self.log if line["event"] == event)
            return next((line for line in lines if matches(line)), None)

        with self._said:
            line = self._said.wait_for(found, PATIENCE_S)
            if line is None:
                raise AssertionError(f"the agent never said {event}:\n{''.join(self.raw)}")
            return line

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the log shows."""
        with self._said:
            if not self._said.wait_for(condition, PATIENCE_S):
                raise AssertionError("".join(self.raw))

    def events(self, name: str) -> list[LogLine]:
        """All log lines with this event name so far."""
        with self._said:
            return [line for line in self.log if line["event"] == name]

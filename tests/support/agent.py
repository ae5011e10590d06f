"""The agent as a process of its own: started like an operator would, its log stream followed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.followed import FollowedProcess

LogLine = dict[str, Any]


class AgentProcess(FollowedProcess):
    """``sriov-agent run`` with JSON logs; a context manager that stops it by SIGTERM."""

    def __init__(
        self,
        host_root: Path,
        config_file: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        command = (
            *wrapper,
            *(sys.executable, "-m", "agent", "run", "--log-format", "json"),
            *("--host-root", str(host_root), "--config-file", str(config_file)),
            *arguments,
        )
        super().__init__(command, env)
        self.log: list[LogLine] = []
        self.raw: list[str] = []

    def take(self, line: str) -> None:
        """Keep it, as an event if it is one."""
        self.raw.append(line)
        if line.startswith("{"):
            self.log.append(json.loads(line))

    def wait_for(self, event: str, matches: Callable[[LogLine], bool] = bool) -> LogLine:
        """The first log line with this event name that matches, now or later."""

        def found() -> LogLine | None:
            lines = (line for line in self.log if line["event"] == event)
            return next((line for line in lines if matches(line)), None)

        return self.wait_until_found(f"saying {event}", found)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the log shows."""
        self.wait_until_found("coming to that", lambda: condition() or None)

    def events(self, name: str, at_least: int = 0) -> list[LogLine]:
        """All log lines with this event name, as soon as there are so many."""

        def found() -> list[LogLine] | None:
            lines = [line for line in self.log if line["event"] == name]
            return lines if len(lines) >= at_least else None

        return self.wait_until_found(f"saying {name} {at_least} times", found)

"""The agent as a process under measurement: as deployed, on a laid-out sysfs and real netlink."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.host.layout import HostBuilder
from tests.support.netns import NetNamespace

_PATIENCE_S = 60.0
_LAY_OVER = """
mount -t tmpfs tmpfs /run
mount --bind "$1/sys" /sys
"""


class Agent:
    """``agent run``, which is over when the context is left."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.command = command
        self._env = {**os.environ, **(env or {})}
        self._said = threading.Condition()
        self._events: set[str] = set()
        self._lines: deque[str] = deque(maxlen=50)

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        self._process = subprocess.Popen(
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
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_PATIENCE_S)
        self._reader.join()

    @property
    def pid(self) -> int:
        """Of the agent itself: whatever wraps it ends in an exec."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._said:
                self._lines.append(line)
                self._events.update(line.split(None, 3)[2:3])
                self._said.notify_all()

    @property
    def log(self) -> str:
        """The newest lines."""
        return "".join(self._lines)

    def wait_for(self, event: str) -> None:
        """Wait until the log tells of an event of this name."""
        with self._said:
            if not self._said.wait_for(lambda: event in self._events, _PATIENCE_S):
                raise AssertionError(f"the agent never said {event}:\n{''.join(self._lines)}")


def below(host: HostBuilder, config: Path, *arguments: str) -> Agent:
    """The agent on a laid-out tree, which it follows by inotify."""
    return Agent(*_run(host.root, config), *arguments)


class Machine(NetNamespace):
    """A laid-out host as the real one: its tree lies over ``/sys``, its network is its own."""

    def __init__(self, host: HostBuilder) -> None:
        super().__init__("-n", "-m", "--propagation", "private")
        self._host = host

    def __enter__(self) -> Self:
        super().__enter__()
        command = ("sh", "-ec", _LAY_OVER, "_", str(self._host.root))
        subprocess.run([*self._inside, *command], check=True)
        return self

    @property
    def _inside(self) -> tuple[str, ...]:
        return (*self.wrapper, f"--mount=/proc/{self.pid}/ns/mnt")

    def agent(self, config: Path, *arguments: str) -> Agent:
        """The agent as deployed, on kernel events."""
        kubelet = ("--kubelet-dir", str(self._host.roots.kubelet))
        return Agent(*self._inside, *_run(Path("/"), config), *kubelet, *arguments)


def _run(root: Path, config: Path) -> tuple[str, ...]:
    files = ("--host-root", str(root), "--config-file", str(config))
    return (sys.executable, "-m", "agent", "run", *files)

"""The agent as a process under measurement: as deployed, on a laid-out sysfs and real netlink."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.support.followed import FollowedProcess
from tests.support.host_builder import HostBuilder
from tests.support.netns import NetNamespace

_LAY_OVER = """
mount -t tmpfs tmpfs /run
mount --bind "$1/sys" /sys
"""


class Agent(FollowedProcess):
    """``agent run``, which is over when the context is left; of its log only names are kept."""

    patience_s = 60.0

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        super().__init__(command, env)
        self._events: set[str] = set()

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        return super().__enter__()

    @property
    def pid(self) -> int:
        """Of the agent itself: whatever wraps it ends in an exec."""
        return self.process.pid

    def take(self, line: str) -> None:
        """Note which event it tells of."""
        self._events.update(line.split(None, 3)[2:3])

    @property
    def log(self) -> str:
        """The newest lines."""
        return "".join(self._last)

    def wait_for(self, event: str) -> None:
        """Wait until the log tells of an event of this name."""
        self.wait_until_found(f"saying {event}", lambda: event in self._events or None)


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

    def stand_in(self, module: str, *arguments: str) -> Agent:
        """A module of ours in the agent's place."""
        return Agent(*self._inside, sys.executable, "-m", module, *arguments)


def _run(root: Path, config: Path) -> tuple[str, ...]:
    files = ("--host-root", str(root), "--config-file", str(config))
    return (sys.executable, "-m", "agent", "run", *files)

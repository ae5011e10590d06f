"""Stop signals in the first moments of the process, while it imports, and as process 1."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.stop_signals import STOP_SIGNALS
from tests.e2e.conftest import ConfigFile, pool
from tests.support.followed import FollowedProcess
from tests.support.host_builder import HostBuilder

AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
BLOCKED = [*STOP_SIGNALS, signal.SIGHUP]
ENTRY_POINT = re.compile(r"^ENTRYPOINT (\[.*\])$", re.MULTILINE)


@pytest.fixture
def arguments(host: HostBuilder, config: ConfigFile) -> tuple[str, ...]:
    """The command line of an agent that has a pool to serve."""
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    path = config.write(pool("net"))
    return ("--host-root", str(host.root), "--config-file", str(path), "--log-format", "json")


class StartingAgent(FollowedProcess):
    """A command of the agent that says on standard error what it has imported, module by module."""

    def __init__(self, *arguments: str, wrapper: Sequence[str] = ()) -> None:
        super().__init__((*wrapper, sys.executable, "-X", "importtime", "-m", "agent", *arguments))
        self.lines: list[str] = []

    def take(self, line: str) -> None:
        self.lines.append(line)

    def wait_for(self, word: str) -> None:
        """A line with this word, now or later."""
        self.wait_until_found(
            f"saying {word}", lambda: next((line for line in self.lines if word in line), None)
        )

    def only_child(self) -> int:
        """The process that ``unshare`` has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        (child,) = map(int, children.split())
        return child

    def end(self) -> tuple[int, list[str]]:
        """The exit code, and what was said beside imports and events."""
        code = self.process.wait(self.patience_s)
        self._reader.join(self.patience_s)
        return code, [s for s in self.lines if not s.startswith(("import time:", "{"))]


@contextmanager
def blocked() -> Iterator[None]:
    """Processes that are started inside have the signals blocked from their first moment."""
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


@pytest.mark.root
@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize(
    "moment",
    [
        "agent.errors",
        "argparse",
        "asyncio.events",
        "agent.daemon",
        "agent.starting",
        "config.loaded",
    ],
)
def test_process_1_stops_cleanly_at_any_time(
    arguments: tuple[str, ...], moment: str, number: signal.Signals
) -> None:
    with StartingAgent(*arguments, wrapper=AS_PROCESS_1) as agent:
        agent.wait_for(moment)
        os.kill(agent.only_child(), number)
        assert agent.end() == (0, [])


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_stop_signal_that_was_blocked_at_the_start_is_handled(
    arguments: tuple[str, ...], number: signal.Signals
) -> None:
    with blocked(), StartingAgent(*arguments) as agent:
        agent.process.send_signal(number)
        assert agent.end() == (0, [])


def test_a_reload_that_is_requested_too_early_does_not_end_the_agent(
    arguments: tuple[str, ...],
) -> None:
    with blocked(), StartingAgent(*arguments) as agent:
        agent.process.send_signal(signal.SIGHUP)
        agent.wait_for("config.loaded")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.end() == (0, [])


def test_another_command_that_is_ended_does_not_report_success(host: HostBuilder) -> None:
    with blocked(), StartingAgent("discover", "--host-root", str(host.root)) as agent:
        agent.process.send_signal(signal.SIGTERM)
        assert agent.end() == (128 + signal.SIGTERM, [])


def test_the_image_blocks_stop_signals_until_the_agent_handles_them() -> None:
    found = ENTRY_POINT.search(Path("Containerfile").read_text())
    assert found
    *before, program = json.loads(found[1])
    assert program == "sriov-agent"
    script = "import json, signal; print(json.dumps([*signal.pthread_sigmask(0, ())]))"
    shown = subprocess.run(
        [*before, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert {*json.loads(shown.stdout)} == {*map(int, BLOCKED)}


def test_a_stop_signal_during_a_destructor_prints_nothing_and_is_handled() -> None:
    script = """
import os, signal
from agent import stop_signals
stop_signals.listen_early([])
class Ended:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
Ended()
print(stop_signals.received_early().name)
"""
    command = (sys.executable, "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "SIGTERM\n", "")

"""A second stop signal ends the process at once, whatever its stopping waits for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from agent.stop_signals import STOP_SIGNALS
from tests.e2e.conftest import ConfigFile, pool
from tests.support.followed import FollowedProcess
from tests.support.host_builder import HostBuilder

HANGS_WHILE_IT_STOPS = """
import asyncio, sys, time
from agent import __main__, daemon
from agent.plugin.fleet import Fleet

async def wait(*_):
    await asyncio.sleep(3600)

async def block(*_):
    time.sleep(3600)

daemon.STOP_WITHIN_S = 3600
Fleet.__aexit__ = {"wait": wait, "block": block}[sys.argv.pop(1)]
__main__.main()
"""
TWO_SIGNALS_EARLY = """
import os, signal
from agent import stop_signals
stop_signals.listen_early([])
try:
    os.kill(os.getpid(), signal.SIGINT)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
"""


class HangingAgent(FollowedProcess):
    """An agent whose fleet never closes: it waits for ever, or blocks the event loop."""

    def __init__(self, how: str, *arguments: str) -> None:
        super().__init__((sys.executable, "-c", HANGS_WHILE_IT_STOPS, how, *arguments))
        self.lines: list[str] = []

    def take(self, line: str) -> None:
        self.lines.append(line)

    def wait_for(self, word: str) -> None:
        """A line with this word, now or later."""
        self.wait_until_found(
            f"saying {word}", lambda: next((line for line in self.lines if word in line), None)
        )


@pytest.mark.parametrize("how", ["wait", "block"])
@pytest.mark.parametrize("second", STOP_SIGNALS)
def test_a_second_signal_ends_an_agent_that_hangs_while_it_stops(
    how: str, second: signal.Signals, host: HostBuilder, config: ConfigFile
) -> None:
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    path = config.write(pool("net"))
    arguments = ("--host-root", str(host.root), "--config-file", str(path))
    with HangingAgent(how, *arguments) as agent:
        agent.wait_for("config.loaded")
        agent.wait_for("pool.")  # the first lists are made: the fleet is at work
        agent.process.send_signal(signal.SIGTERM)
        agent.wait_for("agent.stopping")
        agent.process.send_signal(second)
        assert agent.process.wait(agent.patience_s) == 128 + second


def test_two_signals_before_the_agent_runs_end_it_at_once() -> None:
    command = (sys.executable, "-c", TWO_SIGNALS_EARLY)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")

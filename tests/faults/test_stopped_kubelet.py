"""A kubelet that is stopped takes nothing and answers nothing: the agent goes on without it.

What counts is not for how long it is stopped but what happens meanwhile: dozens of lists that it
does not take, and a registration that it does not answer.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from agent.host.layout import HostBuilder
from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess, LogLine

PF = "0000:3b:00.0"
OTHER_PF = "0000:5e:00.0"
NET = "example.com/net"
OTHER = "example.com/other"
CHANGES = 40
ALLOWED_KIB = 4096


class StoppedKubelet:
    """The stand-in's process, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._newest: dict[str, int] = {}

    def until(self, resource: str, count: int) -> None:
        """Read on until its newest list of a resource has this many healthy devices."""
        assert self._process.stdout is not None
        while self._newest.get(resource) != count:
            line = self._process.stdout.readline()
            assert line, "the stand-in ended"
            told = json.loads(line)
            self._newest[told["resource"]] = len(told["healthy"])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does not run inside."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@pytest.fixture
def standin(host: HostBuilder) -> Iterator[StoppedKubelet]:
    """Serves kubelet.sock of the host."""
    command = [sys.executable, "-m", "tests.faults.standin", str(host.roots.kubelet)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        made = StoppedKubelet(process)
        made.until("", 0)
        yield made
        process.kill()


def test_lists_that_a_stopped_kubelet_does_not_take_cost_nothing_and_it_gets_the_newest(
    host: HostBuilder, config: ConfigFile, standin: StoppedKubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=64)
    host.pf(OTHER_PF, "ens2f0", vfs=4)
    health = {"recoveryHoldSeconds": 0}
    net = pool("net", pfNames=["ens1f0"], drivers=["iavf"], health=health)
    config.write(net)
    with AgentProcess(host.root, config.path) as agent:
        standin.until(NET, 64)
        agent.wait_for("host.followed")
        with standin.stopped():
            change(host, agent, 20)
            memory_kib = resident_kib(agent.process.pid)
            change(host, agent, CHANGES)
            assert resident_kib(agent.process.pid) < memory_kib + ALLOWED_KIB
            config.write(net, pool("other", pfNames=["ens2f0"]))
            agent.wait_for("config.reloaded")
            failed = agent.wait_for("plugin.registration_failed")
            assert failed["resource"] == OTHER
            assert "no answer within 10 s" in failed["error"]
            host.set_driver(host.vfs(PF)[0], None)
            agent.wait_for("device.removed")
        standin.until(NET, 63)
        standin.until(OTHER, 4)
        assert agent.stop() == 0


def test_an_agent_ends_in_time_though_kubelet_is_stopped(
    host: HostBuilder, config: ConfigFile, standin: StoppedKubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=64)
    config.write(pool("net", pfNames=["ens1f0"], health={"recoveryHoldSeconds": 0}))
    with AgentProcess(host.root, config.path) as agent:
        standin.until(NET, 64)
        agent.wait_for("host.followed")
        with standin.stopped():
            change(host, agent, 20)
            assert agent.stop() == 0
        assert [p.name for p in host.roots.device_plugins.glob("*.sock")] == ["kubelet.sock"]


def change(host: HostBuilder, agent: AgentProcess, times: int) -> None:
    """Change every device's health this often, and wait until the agent has seen each."""
    for _ in range(times):
        for event, up in (("device.unhealthy", False), ("device.healthy", True)):
            before = len(agent.events(event))
            host.set_carrier("ens1f0", up=up)
            agent.wait_for(event, partial(is_new, agent, event, before))


def is_new(agent: AgentProcess, event: str, before: int, _: LogLine) -> bool:
    """Whether an event came once more than before."""
    return len(agent.events(event)) > before


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

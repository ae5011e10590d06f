"""A kubelet that is stopped takes nothing and answers nothing: the agent goes on without it.

It is stopped for 30 s by the clock, so that every timer runs out that could, with lists that it
does not take, a registration that it does not answer, and others who ask the same sockets.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

import attrs
import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess, LogLine
from tests.support.hardware import E810, VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Endpoint
from tests.support.protocol import message
from tests.support.usage import descriptors, resident_kib

PF = "0000:3b:00.0"
OTHER_PF = "0000:5e:00.0"
NET = "example.com/net"
OTHER = "example.com/other"
STOPPED_S = 30.0
VFS = 512
LOST = 128
"""So many VFs go one by one, each with a list of its own."""
FIT = 5
"""So many lists of them fit into what a stream may send before its peer reads on."""
BARE = VfHardware("1889", "iavf", netdevs=False, iommu=False)
ALLOWED_KIB = 4096
"""A hundred lists of so many devices would be more."""
ALLOWED_DESCRIPTORS = 4
"""Connections on their way out."""


class StoppedKubelet:
    """The stand-in's process, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.told: dict[str, list[int]] = defaultdict(list)
        """Of each list that it got, by resource: how many devices are healthy."""

    def until(self, resource: str, count: int) -> None:
        """Read on until its newest list of a resource has this many healthy devices."""
        assert self._process.stdout is not None
        while self.told[resource][-1:] != [count]:
            line = self._process.stdout.readline()
            assert line, "the stand-in ended"
            told = json.loads(line)
            self.told[told["resource"]].append(len(told["healthy"]))

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


def test_a_stopped_kubelet_costs_nothing_and_gets_the_newest_list_afterwards(
    host: HostBuilder, config: ConfigFile, standin: StoppedKubelet
) -> None:
    host.pf(PF, "ens1f0", hardware=attrs.evolve(E810, total_vfs=VFS))
    vfs = host.add_vfs(PF, VFS, BARE)
    host.pf(OTHER_PF, "ens2f0", vfs=4)
    net = pool("net", pfNames=["ens1f0"], drivers=["iavf"])
    config.write(net)
    with AgentProcess(host.root, config.path) as agent:
        standin.until(NET, VFS)
        agent.wait_for("host.watching")
        with standin.stopped():
            end = time.monotonic() + STOPPED_S
            config.write(net, pool("other", pfNames=["ens2f0"]))
            agent.wait_for("config.reloaded")
            for number, vf in enumerate(vfs[-LOST:]):
                if number == 2 * FIT:
                    before = Taken.by(agent.process.pid)
                lose_one(host, agent, vf)
                assert answers(host, vfs[0])
            time.sleep(max(0.0, end - time.monotonic()))
            assert answers(host, vfs[0])
            now = Taken.by(agent.process.pid)
            failed = agent.wait_for("plugin.registration_failed")
        standin.until(NET, VFS - LOST)
        standin.until(OTHER, 4)
        assert (failed["resource"], "no answer within 10 s" in failed["error"]) == (OTHER, True)
        assert len(standin.told[NET]) <= 1 + FIT + 1  # the first, and the newest
        assert not agent.events("plugin.stream_lost")
        assert now.memory_kib < before.memory_kib + ALLOWED_KIB
        assert now.descriptors <= before.descriptors + ALLOWED_DESCRIPTORS
        assert agent.stop() == 0


def test_an_agent_ends_in_time_while_kubelet_is_stopped(
    host: HostBuilder, config: ConfigFile, standin: StoppedKubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=64)
    config.write(pool("net", pfNames=["ens1f0"], health={"recoveryHoldSeconds": 0}))
    with AgentProcess(host.root, config.path) as agent:
        standin.until(NET, 64)
        agent.wait_for("host.watching")
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


def lose_one(host: HostBuilder, agent: AgentProcess, vf: str) -> None:
    """Take the driver of a VF away, and wait until the agent has made a list without it."""
    host.set_driver(vf, None)
    agent.wait_for("device.removed", lambda line: vf in line["devices"])


def answers(host: HostBuilder, vf: str) -> bool:
    """Whether somebody else who asks the pool's socket is given a device."""
    (path,) = host.roots.device_plugins.glob("example.com_net.*.sock")
    request = message("v1beta1.AllocateRequest")()
    request.container_requests.add().devices_ids.append(vf)
    endpoint = Endpoint(NET, path)
    try:
        answer = endpoint.call("Allocate", request).container_responses[0]
    finally:
        endpoint.close()
    return str(answer.envs["PCIDEVICE_EXAMPLE_COM_NET"]) == vf


@attrs.frozen
class Taken:
    """What a process has of the machine."""

    memory_kib: int
    descriptors: int

    @classmethod
    def by(cls, pid: int) -> Self:
        """As it is now."""
        return cls(resident_kib(pid), descriptors(pid))

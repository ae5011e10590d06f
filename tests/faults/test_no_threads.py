"""No further thread can be made, as when a fork bomb has taken all processes of a cgroup."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.e2e.conftest import ConfigFile, pool
from tests.faults.faulty_calls import FaultyCalls, built
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
NET = "example.com/net"


def has(kubelet: Kubelet, count: int) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(NET)) == count, f"{count} devices")


def test_an_agent_that_cannot_create_threads_allocates_scans_and_reads_its_configuration(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    faulty = FaultyCalls(built(tmp_path), tmp_path)
    with AgentProcess(host.root, config.path, env=faulty.env) as agent:
        has(kubelet, 8)
        agent.wait_for("agent.ready")
        with faulty.failing("thread", errno.EAGAIN, Path("/thread")):
            assert kubelet.allocate(NET, host.vfs(PF)[0]).envs
            host.set_driver(host.vfs(PF)[7], None)
            has(kubelet, 7)
            config.write(pool("net", pfNames=["ens1f0#0-3"]))
            has(kubelet, 4)
            kubelet.restart()
            has(kubelet, 4)
            assert agent.stop() == 0
    faulty.close()


def test_an_agent_that_starts_without_threads_serves_once_it_can_create_some(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    faulty = FaultyCalls(built(tmp_path), tmp_path)
    everything = faulty.failing("thread", errno.EAGAIN, Path("/thread"))
    with everything, AgentProcess(host.root, config.path, env=faulty.env) as agent:
        agent.wait_for("config.unreadable")
        faulty.heal()
        has(kubelet, 8)
        assert agent.stop() == 0
    faulty.close()

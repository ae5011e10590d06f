"""A process that has run out of descriptors lives, says so, and recovers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import grpc
import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.usage import without_descriptors

PF = "0000:3b:00.0"
NET = "example.com/net"
MORE = "example.com/more"


def started(agent: AgentProcess) -> None:
    """Wait for the last parts of the start, which still open what they need."""
    agent.wait_for("host.watching")
    agent.wait_for("admin.listening")


def has(kubelet: Kubelet, count: int, name: str = NET) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(name)) == count, f"{count} of {name}")


@pytest.fixture
def node(host: HostBuilder, config: ConfigFile) -> HostBuilder:
    """Eight VFs, of which the pool has all."""
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    return host


def test_a_change_of_the_host_is_seen_once_there_are_descriptors_again(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        has(kubelet, 8)
        started(agent)
        with without_descriptors(agent.process.pid):
            node.set_driver(node.vfs(PF)[0], None)
            failed = agent.wait_for("host.scan_failed")
            assert "Too many open files" in failed["error"]
            assert len(kubelet.allocatable(NET)) == 8, "a starved agent takes nothing back"
        has(kubelet, 7)
        assert kubelet.count(NET) == 1
        assert len(agent.events("host.scan_failed", at_least=1)) == 1
        assert agent.stop() == 0


@pytest.mark.parametrize("moment", ["config.loaded", "pool.assigned", "plugin.registered"])
def test_a_start_that_runs_out_of_descriptors_completes_later(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet, moment: str
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for(moment)
        with without_descriptors(agent.process.pid):
            node.set_driver(node.vfs(PF)[0], None)  # if all else is open by now: one more scan
            agent.wait_until(lambda: any("Too many open files" in line for line in agent.raw))
        has(kubelet, 7)
        started(agent)
        assert agent.stop() == 0


def test_an_allocation_without_descriptors_is_refused_with_the_reason_and_works_again(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    device = node.vfs(PF)[1]
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        has(kubelet, 8)
        started(agent)
        with without_descriptors(agent.process.pid), pytest.raises(grpc.RpcError) as refused:
            kubelet.allocate(NET, device)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "Too many open files" in refused.value.details()
        assert kubelet.allocate(NET, device).envs["PCIDEVICE_EXAMPLE_COM_NET"] == device
        assert agent.stop() == 0


def test_a_kubelet_that_restarts_meanwhile_gets_the_registration_afterwards(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        has(kubelet, 8)
        started(agent)
        with without_descriptors(agent.process.pid):
            kubelet.restart()
            failed = agent.wait_for("plugin.registration_failed")
            assert "Too many open files" in failed["error"]
        has(kubelet, 8)
        assert agent.stop() == 0


def test_an_edit_of_the_configuration_meanwhile_is_loaded_afterwards(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        has(kubelet, 8)
        started(agent)
        with without_descriptors(agent.process.pid):
            config.write(pool("net", pfNames=["ens1f0#0-3"]), pool("more", pfNames=["ens1f0#4-7"]))
            assert "Too many open files" in agent.wait_for("config.rejected")["reason"]
        has(kubelet, 4)
        has(kubelet, 4, MORE)
        assert agent.stop() == 0


def test_clients_that_cannot_be_accepted_wait_and_are_served_afterwards(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        has(kubelet, 8)
        started(agent)
        with without_descriptors(agent.process.pid):
            endpoint = kubelet.clients[NET].path
            with grpc.insecure_channel(f"unix:{endpoint}") as channel:
                ready = grpc.channel_ready_future(channel)
                with pytest.raises(grpc.FutureTimeoutError):
                    ready.result(0.5)
                device = node.vfs(PF)[2]
                node.set_driver(device, None)
                agent.wait_for("host.scan_failed")
        has(kubelet, 7)
        assert not [line for line in agent.raw if not line.startswith("{")]
        assert Path(f"/proc/{agent.process.pid}").exists()
        assert agent.stop() == 0


STARVED = 3
"""Kubelet's folders, the configuration, the laid-out tree."""
INOTIFY_LIMIT = "/proc/sys/user/max_inotify_instances"


def test_a_node_whose_inotify_instances_are_used_up_is_served_and_followed_once_there_are_some(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    without = f'echo 0 > {INOTIFY_LIMIT}; exec "$@"'
    wrapper = ("unshare", "--user", "--map-root-user", "sh", "-c", without, "sh")
    with AgentProcess(node.root, config.path, "--log-level", "debug", wrapper=wrapper) as agent:
        has(kubelet, 8)
        agent.wait_until(lambda: len(agent.events("watch.unavailable")) == STARVED)
        for told in agent.events("watch.unavailable"):
            assert "raise fs.inotify.max_user_instances" in told["error"]
        inside = ("nsenter", f"--target={agent.process.pid}", "--user")
        subprocess.run([*inside, "sh", "-c", f"echo 64 > {INOTIFY_LIMIT}"], check=True)
        config.write(pool("net", pfNames=["ens1f0#0-3"]))
        has(kubelet, 4)
        kubelet.restart()
        has(kubelet, 4)
        assert agent.stop() == 0

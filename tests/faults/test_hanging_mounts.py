"""Mounts whose server is dead, below everything that the agent touches: it serves, and it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from agent.roots import Roots
from tests.e2e.conftest import ConfigFile, pool
from tests.faults.dead_mount import dead_mount
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.usefixtures("own_mounts")

PF = "0000:3b:00.0"
NET = "example.com/net"
END_S = 5.0
"""The agent promises 2 s; machines differ."""
FOLDERS: dict[str, Callable[[Roots, Path], Path]] = {
    "the configuration's folder": lambda _, config: config.parent,
    "device-plugins": lambda roots, _: roots.device_plugins,
    "plugins_registry": lambda roots, _: roots.plugins_registry,
    "the folder of device-info": lambda roots, _: roots.device_info,
    "the folder of CDI": lambda roots, _: roots.cdi,
    "the agent's own folder": lambda roots, _: roots.run,
}
in_each_folder = pytest.mark.parametrize("where", FOLDERS)


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    folder = tmp_path / "config"
    folder.mkdir()
    return ConfigFile(folder / "config.json")


@pytest.fixture
def node(host: HostBuilder, config: ConfigFile) -> HostBuilder:
    """Eight VFs, of which the pool has all; each folder that the agent may touch is there."""
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    roots = host.roots
    for folder in (roots.device_info, roots.cdi, roots.run):
        folder.mkdir(parents=True)
    return host


def has(kubelet: Kubelet, count: int) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(NET)) == count, f"{count} devices")


def ends_at_once(agent: AgentProcess) -> bool:
    """Whether SIGTERM ends the agent cleanly, whatever hangs."""
    agent.process.send_signal(signal.SIGTERM)
    return agent.process.wait(END_S) == 0


@in_each_folder
def test_sigterm_ends_an_agent_that_starts_with_a_mount_that_does_not_respond(
    where: str, node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    folder = FOLDERS[where](node.roots, config.path)
    folder.mkdir(exist_ok=True)
    with (
        dead_mount(folder),
        AgentProcess(node.root, config.path, "--use-cdi", "--log-level", "debug") as agent,
    ):
        said = agent.wait_for("file.hangs")
        assert str(folder) in said["path"]
        assert ends_at_once(agent)


@in_each_folder
def test_sigterm_ends_an_agent_whose_mount_stops_responding(
    where: str, node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    folder = FOLDERS[where](node.roots, config.path)
    with AgentProcess(node.root, config.path, "--use-cdi", "--log-level", "debug") as agent:
        has(kubelet, 8)
        agent.wait_for("admin.listening")
        folder.mkdir(exist_ok=True)
        with dead_mount(folder):
            agent.process.send_signal(signal.SIGHUP)
            kubelet.drop_stream(NET)
            agent.wait_for("plugin.stream_lost")
            assert ends_at_once(agent)


def test_a_configuration_that_hangs_leaves_the_loaded_one_and_is_read_once_it_answers(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path) as agent:
        has(kubelet, 8)
        agent.wait_for("agent.ready")
        with dead_mount(config.path.parent):
            agent.process.send_signal(signal.SIGHUP)
            agent.wait_for("file.hangs")
            assert kubelet.allocate(NET, node.vfs(PF)[0]).envs
        agent.wait_for("file.answers")
        config.write(pool("net", pfNames=["ens1f0#0-3"]))
        has(kubelet, 4)
        assert agent.stop() == 0


def test_without_the_folder_of_device_info_an_allocation_is_refused_and_others_are_answered(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    config.write(pool("net", drivers=["iavf"]), pool("pf", pfNames=["ens1f0"], drivers=["ice"]))
    with AgentProcess(node.root, config.path) as agent:
        has(kubelet, 8)
        agent.wait_for("agent.ready")
        with dead_mount(node.roots.device_info):
            for _ in range(2):
                with pytest.raises(grpc.RpcError) as refused:
                    kubelet.allocate(NET, node.vfs(PF)[0])
                assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
                assert "device-info file cannot be written" in refused.value.details()
            node.set_driver(node.vfs(PF)[7], None)
            has(kubelet, 7)
        agent.wait_for("file.answers")
        assert kubelet.allocate(NET, node.vfs(PF)[0]).envs
        assert agent.stop() == 0


def test_with_a_plugins_registry_that_hangs_the_other_registration_method_works(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path) as agent:
        has(kubelet, 8)
        agent.wait_for("agent.ready")
        node.roots.plugins_registry.mkdir()
        with dead_mount(node.roots.plugins_registry):
            kubelet.drop_stream(NET)
            kubelet.wait_for(lambda k: k.count(NET) == 2, "a second registration")
            has(kubelet, 8)
            assert kubelet.allocate(NET, node.vfs(PF)[0]).envs
            assert ends_at_once(agent)

"""Every call on every folder that the agent touches fails with every error: it lives and recovers.

The calls of the C library are failed inside the agent's process, at the start and while it runs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc
import pytest

from agent.roots import Roots
from tests.e2e.conftest import ConfigFile, pool
from tests.faults.faulty_calls import CALLS, FaultyCalls, built
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
NET = "example.com/net"
MORE = "example.com/more"
ERRORS = (errno.EIO, errno.EACCES, errno.ESTALE, errno.EROFS, errno.ELOOP, errno.ENOMEM)
FOLDERS: dict[str, Callable[[Roots, Path], Path]] = {
    "the configuration's folder": lambda _, config: config.parent,
    "kubelet's folder": lambda roots, _: roots.kubelet,
    "device-plugins": lambda roots, _: roots.device_plugins,
    "plugins_registry": lambda roots, _: roots.plugins_registry,
    "the lock's folder": lambda roots, _: roots.device_plugins / ".sriov-node-agent",
    "the folder of device-info": lambda roots, _: roots.device_info,
    "the folder of CDI": lambda roots, _: roots.cdi,
    "the agent's own folder": lambda roots, _: roots.run,
    "sysfs": lambda roots, _: roots.sys,
    "the PCI bus": lambda roots, _: roots.sys / "bus/pci/devices",
}
in_each_folder = pytest.mark.parametrize("where", FOLDERS)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("library"))


@pytest.fixture
def faulty(library: Path, tmp_path: Path) -> Iterator[FaultyCalls]:
    calls = FaultyCalls(library, tmp_path)
    yield calls
    calls.close()


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    folder = tmp_path / "config"
    folder.mkdir()
    return ConfigFile(folder / "config.json")


@pytest.fixture
def node(host: HostBuilder, config: ConfigFile) -> HostBuilder:
    """Eight VFs in two pools; each folder that the agent may touch is there."""
    host.pf(PF, "ens1f0", vfs=8)
    write(config, 0)
    for folder in (host.roots.device_info, host.roots.cdi, host.roots.run):
        folder.mkdir(parents=True)
    return host


def write(config: ConfigFile, number: int) -> None:
    """The two pools, with a value that makes the file another one."""
    config.write(
        pool("net", pfNames=["ens1f0#0-3"]),
        pool("more", pfNames=["ens1f0#4-7"], additionalInfo={"*": {"edition": str(number)}}),
    )


def started(node: HostBuilder, config: ConfigFile, faulty: FaultyCalls) -> AgentProcess:
    return AgentProcess(node.root, config.path, "--use-cdi", "--log-level", "debug", env=faulty.env)


def is_served(kubelet: Kubelet) -> bool:
    return len(kubelet.allocatable(NET)) == 4 and len(kubelet.allocatable(MORE)) == 4


def disturb(kubelet: Kubelet, node: HostBuilder, config: ConfigFile, number: int) -> None:
    """Give the agent a reason to touch each folder."""
    write(config, number)
    with suppress(KeyError, AttributeError):  # kubelet has none of it in this moment
        kubelet.drop_stream(NET)
    (node.roots.device_plugins / "other.sock").touch()
    (node.roots.sys / "touched").touch()
    with suppress(KeyError, AttributeError, grpc.RpcError):
        kubelet.allocate(MORE, node.vfs(PF)[4 + number % 4])


@in_each_folder
def test_no_failing_call_ends_an_agent_that_runs(
    where: str, node: HostBuilder, config: ConfigFile, kubelet: Kubelet, faulty: FaultyCalls
) -> None:
    folder = FOLDERS[where](node.roots, config.path)
    with started(node, config, faulty) as agent:
        kubelet.wait_for(is_served, "the first lists")
        agent.wait_for("admin.listening")
        number = 0
        for call in (*CALLS, "any"):
            for error in ERRORS:
                number += 1
                with faulty.failing(call, error, folder):
                    disturb(kubelet, node, config, number)
                assert agent.process.poll() is None, f"{call}: {os.strerror(error)}"
        write(config, 1000)
        kubelet.restart()
        kubelet.wait_for(is_served, "the lists of afterwards")
        assert kubelet.allocate(MORE, node.vfs(PF)[4]).envs
        assert not agent.events("agent.failed")
        with faulty.failing("any", errno.EROFS, folder):
            assert agent.stop() == 0
        assert faulty.failed, "something was failed"


def reached(faulty: FaultyCalls, before: int, kubelet: Kubelet) -> bool:
    """Whether the agent met the fault, or started because it does not make the call."""
    return faulty.failed > before or is_served(kubelet)


@in_each_folder
def test_no_failing_call_ends_an_agent_that_starts_nor_keeps_it_from_ending(
    where: str, node: HostBuilder, config: ConfigFile, kubelet: Kubelet, faulty: FaultyCalls
) -> None:
    folder = FOLDERS[where](node.roots, config.path)
    for number, call in enumerate((*CALLS, "any")):
        before = faulty.failed
        error = ERRORS[number % len(ERRORS)]
        with faulty.failing(call, error, folder), started(node, config, faulty) as agent:
            agent.wait_for("agent.starting")
            agent.wait_until(partial(reached, faulty, before, kubelet))
            assert agent.stop() == 0, call
            assert not agent.events("agent.failed"), call


@in_each_folder
def test_a_start_with_failing_calls_completes_once_they_work(
    where: str, node: HostBuilder, config: ConfigFile, kubelet: Kubelet, faulty: FaultyCalls
) -> None:
    folder = FOLDERS[where](node.roots, config.path)
    with faulty.failing("any", errno.EIO, folder), started(node, config, faulty) as agent:
        agent.wait_until(lambda: faulty.failed > 0)
        faulty.heal()
        kubelet.wait_for(is_served, "the lists")
        assert agent.stop() == 0

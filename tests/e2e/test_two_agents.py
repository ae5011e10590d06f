"""Two agents on one node, as two DaemonSets: what one has, the other neither serves nor touches."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

NIC, FEC = "0000:3b:00.0", "0000:5e:00.0"
VFIO = VfHardware(device="1889", driver="vfio-pci", netdevs=False)
NET = pool("net", pfNames=["ens1f0"])
DPDK = pool("dpdk", pfNames=["ens2f0"])


def laid_out(host: HostBuilder) -> None:
    """Two PFs with two VFs each."""
    host.pf(NIC, "ens1f0")
    host.add_vfs(NIC, 2, VFIO)
    host.pf(FEC, "ens2f0")
    host.add_vfs(FEC, 2, VFIO)


def second_config(tmp_path: Path, *pools: dict[str, Any]) -> Path:
    return ConfigFile(tmp_path / "second.json").write(*pools)


def both(kubelet: Kubelet) -> None:
    resources = ("example.com/net", "example.com/dpdk")
    kubelet.wait_for(lambda k: all(len(k.allocatable(r)) == 2 for r in resources), "2 of each")


def test_two_agents_with_disjoint_resources_both_work(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    laid_out(host)
    config.write(NET)
    second = second_config(tmp_path, DPDK)
    with AgentProcess(host.root, config.path, "--use-cdi") as one:
        one.wait_for("agent.ready")
        with AgentProcess(host.root, second, "--use-cdi") as two:
            two.wait_for("agent.ready")
            both(kubelet)
            names = sorted(path.name for path in host.roots.cdi.iterdir())
            assert names == [
                "sriov-dp-example.com-net-pci-dpdk.json",
                "sriov-dp-example.com-net-pci-net.json",
            ]
            answer = kubelet.allocate("example.com/dpdk", "0000:5e:01.0")
            assert [d.name for d in answer.cdi_devices] == ["example.com/net-pci=0000:5e:01.0"]
        # The first has the node to itself again, and has lost nothing.
        assert len(kubelet.allocatable("example.com/net")) == 2
        assert not one.events("plugin.invalidated")


def test_a_shared_resource_waits_for_the_agent_that_serves_it_and_the_others_do_not(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    laid_out(host)
    config.write(NET)
    second = second_config(tmp_path, NET, DPDK)
    with AgentProcess(host.root, second) as two:
        both(kubelet)
        with AgentProcess(host.root, config.path) as one:
            waiting = one.wait_for("lock.waiting")
            assert waiting["resources"] == ["example.com/net"]
            assert waiting["holder"].startswith(f"pid {two.process.pid} on ")
            assert waiting["holder"].endswith(f", configuration {second}")
            assert kubelet.count("example.com/net") == 1
            two.process.send_signal(signal.SIGKILL)
            one.wait_for("lock.acquired")
            kubelet.wait_for(lambda k: k.count("example.com/net") == 2, "a second registration")
            one.wait_for("agent.ready")


def test_after_an_edit_the_other_agent_gets_a_resource_at_once(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    laid_out(host)
    config.write(NET, DPDK)
    second = second_config(tmp_path, DPDK)
    with AgentProcess(host.root, config.path, "--use-cdi") as one:
        both(kubelet)
        with AgentProcess(host.root, second, "--use-cdi") as two:
            two.wait_for("lock.waiting")
            spec = host.roots.cdi / "sriov-dp-example.com-net-pci-dpdk.json"
            before = json.loads(spec.read_bytes())
            config.write(NET)
            two.wait_for("plugin.registered")
            one.wait_for("plugin.removed")
            kubelet.wait_for(lambda k: len(k.allocatable("example.com/dpdk")) == 2, "its devices")
            two.wait_for("agent.ready")
            assert json.loads(spec.read_bytes()) == before


def test_a_second_agent_with_the_same_run_folder_says_that_it_has_no_admin_socket(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    laid_out(host)
    config.write(NET)
    second = second_config(tmp_path, DPDK)
    with AgentProcess(host.root, config.path, "--log-level=debug") as one:
        one.wait_for("admin.listening")
        with AgentProcess(host.root, second, "--log-level=debug") as two:
            assert "another agent" in two.wait_for("admin.unavailable")["error"]
            both(kubelet)
            assert one.stop() == 0
            two.wait_for("admin.listening")


def test_a_device_that_two_agents_select_is_allocated_by_one_of_them_only(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    laid_out(host)
    config.write(NET)
    second = second_config(tmp_path, pool("same", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path) as one, AgentProcess(host.root, second) as two:
        one.wait_for("agent.ready")
        two.wait_for("agent.ready")
        resources = ("example.com/net", "example.com/same")
        kubelet.wait_for(lambda k: all(len(k.allocatable(r)) == 2 for r in resources), "2 of each")
        kubelet.allocate("example.com/net", "0000:3b:01.0")
        with pytest.raises(grpc.RpcError, match=r"just given it to a pod as example\.com/net"):
            kubelet.allocate("example.com/same", "0000:3b:01.0")
        kubelet.allocate("example.com/same", "0000:3b:01.1")

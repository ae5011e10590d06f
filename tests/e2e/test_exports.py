"""Files that outlive the agent, and what a process does about them at its start."""

from __future__ import annotations

from agent.host.hardware import E810
from agent.host.layout import HostBuilder
from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
DRAFT = ".sriov-agent-0123456789abcdef.tmp"


def test_drafts_of_an_agent_that_was_killed_are_gone_once_the_next_one_serves(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]))
    folders = (host.roots.device_info, host.roots.cdi)
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / DRAFT).touch()
        (folder / ".vendor-0123456789abcdef.tmp").touch()
    with AgentProcess(host.root, config.path):
        kubelet.wait_for(lambda k: len(k.allocatable("example.com/net")) == 2)
    for folder in folders:
        assert [p.name for p in folder.iterdir()] == [".vendor-0123456789abcdef.tmp"]


def test_a_prefix_that_is_no_cdi_vendor_is_told_at_the_start_and_no_pod_gets_a_broken_device(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0")
    host.add_vfs(PF, 2, E810.vf.vfio)
    config.write(pool("dpdk", prefix="3com.io", drivers=["vfio-pci"]))
    with AgentProcess(host.root, config.path, "--use-cdi") as agent:
        told = agent.wait_for("cdi.failed")
        assert "give the pool another resourcePrefix" in told["error"]
        kubelet.wait_for(lambda k: "3com.io/dpdk" in k.clients and k.clients["3com.io/dpdk"].lists)
        assert [d.healthy for d in kubelet.clients["3com.io/dpdk"].lists[-1]] == [False, False]
    assert not list(host.roots.cdi.glob("*"))

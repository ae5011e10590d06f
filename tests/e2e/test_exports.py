"""Files that outlive the agent, and what a process does about them at its start."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
DRAFT = ".sriov-agent-0123456789abcdef.tmp"


def test_drafts_of_an_agent_that_was_killed_are_removed_when_the_next_one_serves(
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


@pytest.mark.parametrize("prefix", ["3com.io", "a"])
def test_a_pool_without_a_valid_cdi_name_is_not_listed_and_the_others_are(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, prefix: str
) -> None:
    host.pf(PF, "ens1f0")
    host.add_vfs(PF, 2, E810.vf.vfio)
    config.write(pool("dpdk", prefix=prefix, drivers=["vfio-pci"]), pool("net", drivers=["ice"]))
    with AgentProcess(host.root, config.path, "--use-cdi") as agent:
        refused = agent.wait_for("config.error")
        assert "give the pool another resourcePrefix" in refused["message"]
        assert agent.wait_for("config.pool_refused")["resource"] == f"{prefix}/dpdk"
        agent.wait_for("config.loaded")
    assert f"{prefix}/dpdk" not in kubelet.clients
    assert not list(host.roots.cdi.glob("*"))

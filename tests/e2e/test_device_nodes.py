"""Device nodes of the host while the agent runs: what is missing is not handed out, and heals."""

from __future__ import annotations

import attrs
import grpc
import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.vfio import share_group

PF = "0000:5e:00.0"
VF = "example.com/vf"


def test_a_device_whose_node_is_missing_is_unhealthy_until_the_node_is_back(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens2f0", attrs.evolve(E810, vf=E810.vf.vfio), vfs=2)
    first, second = host.vfs(PF)
    node = host.root / "dev/vfio" / (host.folder(first) / "iommu_group").readlink().name
    node.unlink()
    config.write(pool("vf", drivers=["vfio-pci"]))
    with AgentProcess(host.root, config.path) as agent:
        kubelet.wait_for(lambda k: k.allocatable(VF) == (second,))
        with pytest.raises(grpc.RpcError, match=f"no device node /dev/vfio/{node.name}"):
            kubelet.allocate(VF, first)
        agent.events("host.watching", at_least=1)
        node.touch()
        kubelet.wait_for(lambda k: k.allocatable(VF) == (first, second))
        node.unlink()
        kubelet.wait_for(lambda k: k.allocatable(VF) == (second,))


def test_a_mate_in_the_iommu_group_of_a_held_device_waits_for_its_pod(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens2f0", attrs.evolve(E810, vf=E810.vf.vfio), vfs=3)
    first, mate, other = host.vfs(PF)
    share_group(host, mate, first)
    config.write(pool("vf", drivers=["vfio-pci"]))
    with AgentProcess(host.root, config.path):
        kubelet.wait_for(lambda k: k.allocatable(VF) == (first, mate, other))
        assert kubelet.allocate(VF, first).devices
        kubelet.wait_for(lambda k: k.allocatable(VF) == (first, other))
        with pytest.raises(grpc.RpcError, match=f"shares IOMMU group .* with {first}"):
            kubelet.allocate(VF, mate)

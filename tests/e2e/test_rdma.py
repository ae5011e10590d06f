"""RDMA nodes that are not all there: the device is offered, what exists is passed, one warning."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import CONNECTX6
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:5e:00.0"


@pytest.mark.parametrize("missing", ["ib_umad", "rdma_ucm"])
def test_a_missing_kernel_module_is_named_once_and_the_device_is_offered(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, missing: str
) -> None:
    host.pf(PF, "ens2f0", CONNECTX6, vfs=1)
    (vf,) = host.vfs(PF)
    host.rdma(vf, "mlx5_1", umad=missing != "ib_umad")
    if missing == "rdma_ucm":
        (host.root / "dev/infiniband/rdma_cm").unlink()
    config.write(pool("rdma", isRdma=True))
    with AgentProcess(host.root, config.path) as agent:
        kubelet.wait_for(lambda k: k.allocatable("example.com/rdma") == (vf,))
        answer = kubelet.allocate("example.com/rdma", vf)
        told = agent.events("host.rdma_module_missing", at_least=1)
        assert [line["module"] for line in told] == [missing]
    names = {d.host_path.removeprefix("/dev/infiniband/").rstrip("0") for d in answer.devices}
    whole = {"uverbs", "umad", "issm", "rdma_cm"}
    assert names == whole - ({"umad", "issm"} if missing == "ib_umad" else {"rdma_cm"})


def test_nodes_are_looked_up_again_at_each_allocation(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens2f0", CONNECTX6, vfs=1)
    (vf,) = host.vfs(PF)
    host.rdma(vf, "mlx5_1")
    config.write(pool("rdma", isRdma=True))
    with AgentProcess(host.root, config.path):
        kubelet.wait_for(lambda k: k.allocatable("example.com/rdma") == (vf,))
        host.rdma(vf, "mlx5_2")
        answer = kubelet.allocate("example.com/rdma", vf)
    assert "/dev/infiniband/uverbs1" in {d.host_path for d in answer.devices}

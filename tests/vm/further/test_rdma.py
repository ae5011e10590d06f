"""RDMA devices below VFs: soft iWARP on their netdevs, with the kernel's real character devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import pool
from tests.vm.guest.machine import Function, Nic, await_truth, set_up
from tests.vm.guest.node import Node
from tests.vm.wiring import BUILDS

from .hardware import run, skip_without

if TYPE_CHECKING:
    from collections.abc import Iterator

RDMA = "example.com/rdma"


@pytest.fixture
def vfs() -> Iterator[tuple[Function, ...]]:
    skip_without(BUILDS, modules=("siw", "ib_uverbs", "rdma_ucm"), tool="rdma")
    nic = Nic(0)
    made = nic.pf.set_vfs(2)
    for function in (nic.pf, *made):
        netdev = await_truth(lambda function=function: function.netdev)  # type: ignore[misc]
        set_up(netdev, up=True)
    yield made
    nic.pf.set_vfs(0)


def test_a_vf_with_an_rdma_device_is_given_with_nodes_that_can_be_opened(
    node: Node, vfs: tuple[Function, ...]
) -> None:
    first, second = vfs
    with node.agent(pool("rdma", drivers=["igbvf"], isRdma=True, advertiseEmpty=True)):
        node.await_ids(resource=RDMA)
        run("rdma", "link", "add", "soft0", "type", "siw", "netdev", str(first.netdev))
        node.await_ids(first, resource=RDMA)
        run("rdma", "link", "add", "soft1", "type", "siw", "netdev", str(second.netdev))
        node.await_ids(first, second, resource=RDMA)
        given = node.kubelet.allocate(RDMA, first.address)
        paths = sorted(device.host_path for device in given.devices)
        assert "/dev/infiniband/rdma_cm" in paths
        assert "/dev/infiniband/uverbs0" in paths
        assert not any(path.endswith("1") for path in paths), "the other VF's"
        for path in paths:
            os.close(os.open(path, os.O_RDWR))
        assert [(d.container_path, d.permissions) for d in given.devices] == [
            (device.host_path, "rw") for device in given.devices
        ]
        run("rdma", "link", "delete", "soft1")
        node.await_ids(first, resource=RDMA)

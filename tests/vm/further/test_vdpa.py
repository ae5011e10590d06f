"""vDPA devices below VFs, with the kernel's real character devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import pool
from tests.vm.guest.machine import Function
from tests.vm.guest.node import Node
from tests.vm.wiring import BUILDS, VIRTIO_VFS

from .hardware import VirtioNic, run, skip_without

if TYPE_CHECKING:
    from collections.abc import Iterator

VDPA = "example.com/vdpa"


@pytest.fixture
def vfs() -> Iterator[tuple[Function, ...]]:
    skip_without(BUILDS, modules=("vp_vdpa", "vhost_vdpa"), tool="vdpa")
    nic = VirtioNic()
    made = nic.pf.set_vfs(VIRTIO_VFS)
    yield made
    nic.pf.set_vfs(0)


def test_a_vf_with_a_vdpa_device_is_given_with_its_node(
    node: Node, vfs: tuple[Function, ...]
) -> None:
    plain, first, second = vfs
    assert plain.driver == "virtio-pci"
    with node.agent(pool("vdpa", vdpaType="vhost", advertiseEmpty=True)):
        node.await_ids(resource=VDPA)
        for number, vf in enumerate((first, second)):
            vf.bind("vp-vdpa")
            run("vdpa", "dev", "add", "name", f"soft{number}", "mgmtdev", f"pci/{vf.address}")
        node.await_ids(first, second, resource=VDPA, healthy=None)
        given = node.kubelet.allocate(VDPA, second.address)
        (device,) = given.devices
        assert device.host_path == device.container_path == "/dev/vhost-vdpa-1"
        os.close(os.open(device.host_path, os.O_RDWR))
        run("vdpa", "dev", "del", "soft0")
        node.await_ids(second, resource=VDPA, healthy=None)
        run("vdpa", "dev", "del", "soft1")

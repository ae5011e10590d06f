"""A virtio NIC with VFs: another driver's SR-IOV, and links that fail one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import pool
from tests.vm.guest.machine import Function, Nic, await_quiet
from tests.vm.guest.node import Node
from tests.vm.wiring import VIRTIO_VFS

from .hardware import VirtioNic

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = {"link": True, "recoveryHoldSeconds": 0}
# Longer than the agent waits for anything before it tells kubelet.
SETTLED_S = 2.5


@pytest.fixture
def nic() -> Iterator[VirtioNic]:
    one = VirtioNic()
    one.pf.set_vfs(0)
    one.with_carrier(one.pf)
    yield one
    one.pf.set_vfs(0)


def test_the_link_of_the_pf_decides_for_its_vfs_and_not_their_own(
    node: Node, nic: VirtioNic
) -> None:
    vfs = nic.pf.set_vfs(VIRTIO_VFS)
    nic.with_carrier(*vfs)
    await_quiet()
    names = [nic.netdev(nic.pf)]
    with node.agent(pool("net", pfNames=names, drivers=["virtio-pci"], health=AT_ONCE)) as agent:
        node.await_ids(*vfs)
        nic.set_link(vfs[1], up=False)
        await_quiet(SETTLED_S)
        assert len(node.lists()) == 1, "an idle VF without carrier is no fault"
        nic.set_link(nic.pf, up=False)
        node.await_ids(*vfs, healthy=False)
        assert agent.wait_for("device.unhealthy")["cause"] == "no carrier"
        nic.set_link(nic.pf, up=True)
        node.await_ids(*vfs)
        assert len(node.lists()) == 3, "one list for each change"
        nic.pf.set_vfs(0)
        node.await_ids()


def test_a_function_without_a_pf_here_is_judged_by_its_own_link_alone(
    node: Node, nic: VirtioNic
) -> None:
    others = (Nic(0).pf, Nic(1).pf)
    with node.agent(pool("net", drivers=["virtio-pci", "igb"], health=AT_ONCE)):
        node.await_ids(nic.pf, *others)
        nic.set_link(nic.pf, up=False)
        _await_unhealthy(node, nic.pf)
        nic.set_link(nic.pf, up=True)
        node.await_ids(nic.pf, *others)


def _await_unhealthy(node: Node, *expected: Function) -> None:
    ids = {function.address for function in expected}
    node.kubelet.wait_for(
        lambda _: {d.id for d in node.lists()[-1] if not d.healthy} == ids,
        f"only {ids} unhealthy",
    )

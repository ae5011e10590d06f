from __future__ import annotations

import attrs

from agent.model.device import Netdev, RdmaDevice
from agent.model.nodes import HostNodes
from tests.support.devices import host, pf, sf, vf

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
VFS = tuple(vf(f"0000:3b:02.{i}", PF0, i, netdevs=(Netdev(f"pf0v{i}"),)) for i in range(2))
SUB = sf(PF0, 1)
GUEST = vf("0000:05:00.0", None)
NODE = host(GUEST, PF0, *VFS, SUB)


def test_snapshots_of_different_hosts_are_not_equal() -> None:
    assert attrs.evolve(NODE) == NODE
    assert attrs.evolve(NODE, nodes=HostNodes(rdma_cm=True)) != NODE


def test_the_pf_of_a_function_is_found_if_it_is_on_this_host() -> None:
    assert [NODE.pf_of(d) for d in NODE.devices] == [None, PF0, PF0, PF0, PF0]
    assert NODE.pf_of(vf("0000:99:02.0", pf("0000:99:00.0"))) is None


def test_the_netdev_that_carries_a_functions_traffic_is_its_pfs_uplink() -> None:
    ports = (Netdev("aaa"), Netdev("pf0"))
    parent = attrs.evolve(PF0, netdevs=ports)
    node = host(parent, VFS[0], SUB)
    assert node.pf_netdev(VFS[0]) == ports[1]
    assert node.pf_netdev(SUB) == ports[1]
    unnamed = attrs.evolve(parent, pf_name=None)
    assert host(unnamed, VFS[0]).pf_netdev(VFS[0]) == ports[0]
    assert host(attrs.evolve(PF0, netdevs=()), VFS[0]).pf_netdev(VFS[0]) is None
    assert NODE.pf_netdev(GUEST) is None


def test_devices_are_found_by_id_and_by_netdev() -> None:
    assert NODE.by_id[SUB.id] is SUB
    assert list(NODE.pfs) == [PF0.id]
    assert dict(NODE.netdev_owner) == {"pf0": PF0, "pf0v0": VFS[0], "pf0v1": VFS[1]}


def test_the_first_netdev_of_a_function_is_its_netdev() -> None:
    assert VFS[0].netdev == Netdev("pf0v0")
    assert GUEST.netdev is None


def test_rdma_is_available_by_a_device_on_the_host_or_by_devlinks_parameter() -> None:
    assert not GUEST.is_rdma
    assert attrs.evolve(GUEST, rdma=(RdmaDevice("mlx5_0"),)).is_rdma
    assert attrs.evolve(GUEST, rdma_enabled=True).is_rdma
    assert not attrs.evolve(GUEST, rdma_enabled=False).is_rdma

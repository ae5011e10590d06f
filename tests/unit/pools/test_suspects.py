from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.kinds import ACCELERATOR
from agent.model.device import Device, Netdev, RdmaDevice, VdpaDevice
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.pool import Pools
from agent.pools.suspects import lacks_its_netdev, suspicion
from tests.support.devices import host, pf, sf, vf

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
ORPHAN = vf("0000:3b:02.0", PF0, 0, driver="iavf", netdevs=(), pci_class=0x020000)
SF = attrs.evolve(sf(PF0, 3, 2), driver="mlx5_core.sf", netdevs=())


@pytest.mark.parametrize(
    "device",
    [ORPHAN, attrs.evolve(ORPHAN, driver="mlx5_core", rdma=(RdmaDevice("mlx5_3"),)), SF],
    ids=["VF", "VF with RDMA", "SF"],
)
def test_a_function_whose_driver_made_no_netdev_looks_broken(device: Device) -> None:
    assert lacks_its_netdev(device)


@pytest.mark.parametrize(
    "changes",
    [
        {"netdevs": (Netdev("v0"),)},
        {"driver": None},
        {"driver": "vfio-pci"},
        {"driver": "mlx5_vfio_pci"},
        {"driver": "igb_uio", "uio": ("uio0",)},
        {"driver": "uio_pci_generic"},
        {"driver": "pci-stub"},
        {"vdpa": (VdpaDevice("vdpa0", "vhost"),)},
        {"pci_class": 0x020700},
        {"kind": ACCELERATOR},
    ],
    ids=str,
)
def test_a_function_that_needs_no_netdev_does_not_look_broken(changes: dict[str, Any]) -> None:
    assert not lacks_its_netdev(attrs.evolve(ORPHAN, **changes))


def test_a_pf_does_not_look_broken_without_a_netdev() -> None:
    assert not lacks_its_netdev(pf("0000:3b:00.1", "pf1", driver="ice", netdevs=()))


def node(held: AllocatedDevices, parent: Device = PF0) -> Pools:
    return Pools(snapshot=host(parent, ORPHAN), held=held)


def test_the_netdev_of_an_allocated_function_is_in_its_pod() -> None:
    holders = {ORPHAN.id: PodOwner("intel.com/vf")}
    assert suspicion(ORPHAN, node(AllocatedDevices(holders, complete=True))) == ""
    assert "no pod holds it" in suspicion(ORPHAN, node(AllocatedDevices(complete=True)))
    assert "no pod is known to hold it" in suspicion(ORPHAN, node(AllocatedDevices()))


def test_if_the_pfs_netdev_is_missing_too_no_function_looks_broken() -> None:
    """The agent is not in the host's network namespace."""
    bare = attrs.evolve(PF0, netdevs=())
    assert suspicion(ORPHAN, node(AllocatedDevices(complete=True), bare)) == ""
    on_vfio = attrs.evolve(bare, driver=None)
    assert "no pod holds it" in suspicion(ORPHAN, node(AllocatedDevices(complete=True), on_vfio))

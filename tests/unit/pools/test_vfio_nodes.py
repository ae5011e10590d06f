"""Which VFIO and vhost nodes a device brings: by what it has and what the host has."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from agent.errors import DeviceNotUsableError
from agent.export.cdi import cdi_document
from agent.model.device import Device, RdmaDevice, VdpaDevice
from agent.model.nodes import HostNodes
from agent.model.snapshot import lack_netdevs
from agent.pools.allocation import allocation, lost_node
from agent.pools.suspects import lacks_its_netdev
from tests.support.devices import host, pf, vf
from tests.support.pools import one_pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=8)
VF0 = "0000:3b:02.0"
GROUP = ("/dev/vfio/vfio", "/dev/vfio/21")
CDEV = ("/dev/iommu", "/dev/vfio/devices/vfio7")
VHOST = ("/dev/vhost-net", "/dev/net/tun")


def seen(*paths: str) -> HostNodes:
    """A host whose /dev is visible and has these nodes."""
    return HostNodes(is_seen=True, names=frozenset(p.removeprefix("/dev/") for p in paths))


def function(**facts: Any) -> Device:  # noqa: ANN401 - any fact of a device
    return vf(VF0, PF0, 0, **{"driver": "vfio-pci", "iommu_group": 21} | facts)


def given(
    device: Device, nodes: HostNodes, **selectors: object
) -> tuple[tuple[str, ...], dict[str, dict[str, str]]]:
    """The host paths of the answer, which those of the CDI spec equal, and the info."""
    pool = one_pool(host(PF0, device), selectors)
    made = allocation(pool.config, pool.members, nodes)
    spec: Any = cdi_document(pool, frozenset(), {}, nodes)
    paths = tuple(n.host_path for n in made.nodes)
    edits = spec["devices"][0]["containerEdits"]["deviceNodes"] if spec else []
    assert tuple(n["hostPath"] for n in edits) == paths
    info = json.loads(dict(made.envs)["PCIDEVICE_INTEL_COM_VF_INFO"])[VF0]
    del info["generic"]
    return paths, info


@pytest.mark.parametrize(
    "driver",
    ["vfio-pci", "mlx5_vfio_pci", "hisi_acc_vfio_pci", "pds_vfio_pci", "virtio_vfio_pci"],
)
def test_every_driver_that_binds_to_vfio_brings_the_group(driver: str) -> None:
    info = {"vfio": {"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/21"}}
    for nodes in (HostNodes(), seen(*GROUP)):
        assert given(function(driver=driver), nodes) == (GROUP, info)


def test_a_driver_of_another_name_that_created_a_vfio_device_has_the_nodes_of_its_group() -> None:
    assert given(function(driver="nvidia", vfio_device="vfio7"), seen(*GROUP))[0] == GROUP


def test_without_group_nodes_the_nodes_of_iommufd_are_added() -> None:
    paths, info = given(function(vfio_device="vfio7"), seen(*CDEV))
    assert paths == CDEV
    assert info["vfio"] == {"cdev-mount": CDEV[1], "iommufd-mount": CDEV[0]}


def test_both_kinds_of_nodes_are_added_if_the_host_has_both() -> None:
    paths, info = given(function(vfio_device="vfio7"), seen(*GROUP, *CDEV))
    assert paths == (*GROUP, *CDEV)
    assert info["vfio"].keys() == {"mount", "dev-mount", "cdev-mount", "iommufd-mount"}


def test_if_dev_is_not_visible_the_group_node_is_added_if_the_kernel_has_groups() -> None:
    device = function(vfio_device="vfio7")
    names = frozenset({"vfio/devices/vfio7", "iommu"})
    assert given(device, HostNodes(names=names))[0] == GROUP
    assert given(device, HostNodes(names=names, has_vfio_groups=False))[0] == CDEV


def test_a_device_of_a_group_without_an_iommu_has_no_device_node() -> None:
    device = function(noiommu=True, vfio_device="vfio7")
    there = seen("/dev/vfio/vfio", "/dev/vfio/noiommu-21", "/dev/iommu")
    assert given(device, there)[0] == ("/dev/vfio/vfio", "/dev/vfio/noiommu-21")


RDMA = RdmaDevice("mlx5_2", uverbs=("/dev/infiniband/uverbs2",))
VDPA = VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0")


@pytest.mark.parametrize(
    ("facts", "selectors", "there", "missing"),
    [
        ({}, {}, ("/dev/vfio/vfio",), "/dev/vfio/21"),
        ({}, {}, ("/dev/vfio/21",), "/dev/vfio/vfio"),
        ({"noiommu": True}, {}, GROUP, "/dev/vfio/noiommu-21"),
        ({"vfio_device": "vfio7"}, {}, ("/dev/iommu",), "/dev/vfio/21"),
        ({"vfio_device": "vfio7", "iommu_group": None}, {}, CDEV[1:], "/dev/iommu"),
        ({"driver": "igb_uio", "uio": ("uio0",)}, {}, (), "/dev/uio0"),
        ({"driver": "mlx5_core", "rdma": (RDMA,)}, {"isRdma": True}, (), RDMA.uverbs[0]),
        ({"driver": "mlx5_core", "vdpa": (VDPA,)}, {"vdpaType": "vhost"}, (), VDPA.char_device),
    ],
)
def test_a_node_that_the_host_lacks_is_named_and_not_added(
    facts: dict[str, Any], selectors: dict[str, object], there: tuple[str, ...], missing: str
) -> None:
    pool = one_pool(host(PF0, function(**facts)), selectors)
    (member,) = pool.members
    text = f"the host has no device node {missing}"
    assert lost_node(member, seen(*there)) == text
    assert lost_node(member, HostNodes()) == ""
    with pytest.raises(DeviceNotUsableError, match=text):
        allocation(pool.config, pool.members, seen(*there))


def test_rdma_nodes_that_the_pool_does_not_add_may_be_missing() -> None:
    assert given(function(driver="mlx5_core", rdma=(RDMA,)), seen())[0] == ()


@pytest.mark.parametrize(
    ("there", "paths", "has_section"),
    [
        (VHOST, VHOST, True),
        ((), (), False),
        (VHOST[:1], (), True),  # like the Go plugin
        (VHOST[1:], (), False),
    ],
)
def test_vhost_nodes_are_added_only_if_the_host_has_both(
    there: tuple[str, ...],
    paths: tuple[str, ...],
    has_section: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    found, info = given(function(driver="iavf"), seen(*there), needVhostNet=True)
    assert (found, "vhost" in info) == (paths, has_section)


def test_vhost_nodes_are_added_if_dev_is_not_visible() -> None:
    assert given(function(driver="iavf"), HostNodes(), needVhostNet=True)[0] == VHOST


def test_a_note_of_the_pool_names_the_missing_vhost_node() -> None:
    lacking = host(PF0, function())
    notes = one_pool(attrs.evolve(lacking, nodes=seen(*GROUP)), {"needVhostNet": True}).notes
    text = (
        "needVhostNet: the host has no /dev/vhost-net and no /dev/net/tun, so pods get neither of "
        "the two nodes; load the kernel's module (modprobe vhost_net tun)"
    )
    assert notes == (text,)
    assert one_pool(lacking, {"needVhostNet": True}).notes == ()


@pytest.mark.parametrize("facts", [{"driver": "mlx5_vfio_pci"}, {"vfio_device": "vfio7"}])
def test_a_function_on_vfio_is_not_treated_as_one_that_lost_its_netdev(
    facts: dict[str, Any],
) -> None:
    assert lacks_its_netdev(function(driver="iavf"))
    assert not lacks_its_netdev(function(**{"driver": "nvidia"} | facts))
    pf_of_it = attrs.evolve(PF0, netdevs=(), **{"driver": "nvidia"} | facts)
    assert lack_netdevs((attrs.evolve(PF0, netdevs=()),))
    assert not lack_netdevs((pf_of_it,))

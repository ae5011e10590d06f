from __future__ import annotations

import json
from typing import Any

import pytest

from agent.config.names import env_names
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.model.answers import Allocation, DeviceNode
from agent.model.device import Device, RdmaDevice, VdpaDevice
from agent.model.nodes import HostNodes
from agent.pools.allocation import allocation, members_for
from agent.pools.pool import Pool
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import assigned, held, one_pool, pool, pool_config

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=8)
ENV = "PCIDEVICE_INTEL_COM_VF"
VFIO = DeviceNode("/dev/vfio/vfio", "/dev/vfio/vfio")


def function(index: int = 0, **facts: Any) -> Device:  # noqa: ANN401 - any fact of a device
    return vf(f"0000:3b:02.{index}", PF0, index, **facts)


def vfio(index: int, group: int | None, **facts: Any) -> Device:  # noqa: ANN401 - likewise
    return function(index, driver="vfio-pci", iommu_group=group, **facts)


def rdma(name: str, number: int, **nodes: Any) -> RdmaDevice:  # noqa: ANN401 - tuples of paths
    plain = {
        "uverbs": (f"/dev/infiniband/uverbs{number}",),
        "umad": (f"/dev/infiniband/umad{number}",),
        "issm": (f"/dev/infiniband/issm{number}",),
    }
    return RdmaDevice(name, **plain | nodes)


def pool_of(*devices: Device, **selectors: object) -> Pool:
    return one_pool(host(PF0, *devices), selectors)


def answer(chosen: Pool, *ids: str, rdma_cm: bool = True) -> Allocation:
    wanted = ids or tuple(m.device.id for m in chosen.members)
    return allocation(chosen.config, members_for(chosen, wanted), HostNodes(rdma_cm=rdma_cm))


def info(made: Allocation, device_id: str = "0000:3b:02.0") -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(dict(made.envs)[f"{ENV}_INFO"])[device_id]
    return found


def same(*paths: str) -> tuple[DeviceNode, ...]:
    return tuple(DeviceNode(path, path) for path in paths)


def test_a_plain_vf_has_its_id_in_two_variables_and_nothing_else() -> None:
    assert answer(pool_of(function())) == Allocation(
        envs=(
            (ENV, "0000:3b:02.0"),
            (f"{ENV}_INFO", '{"0000:3b:02.0":{"generic":{"deviceID":"0000:3b:02.0"}}}'),
        )
    )


@pytest.mark.parametrize(
    ("prefix", "name", "envs"),
    [
        ("intel.com", "vf", ("PCIDEVICE_INTEL_COM_VF",)),
        ("intel.com", "sriov_net_A1", ("PCIDEVICE_INTEL_COM_SRIOV_NET_A1",)),
        ("nvidia.com", "cx6-dx", ("PCIDEVICE_NVIDIA_COM_CX6-DX", "PCIDEVICE_NVIDIA_COM_CX6_DX")),
        ("my-lab.io", "vf", ("PCIDEVICE_MY-LAB_IO_VF", "PCIDEVICE_MY_LAB_IO_VF")),
        ("a.b.c.d", "x", ("PCIDEVICE_A_B_C_D_X",)),
        ("nodot", "x", ("PCIDEVICE_NODOT_X",)),
    ],
)
def test_env_names_turn_dots_and_case_keep_hyphens_and_add_an_alias_without(
    prefix: str, name: str, envs: tuple[str, ...]
) -> None:
    assert env_names(pool_config(name, resourcePrefix=prefix).resource) == envs


def test_the_alias_has_the_same_values_as_the_name_with_the_hyphen() -> None:
    chosen = one_pool(host(PF0, function()))
    config = pool_config("a-b", resourcePrefix="intel.com")
    envs = dict(allocation(config, chosen.members, HostNodes(rdma_cm=False)).envs)
    assert list(envs) == [
        "PCIDEVICE_INTEL_COM_A-B",
        "PCIDEVICE_INTEL_COM_A-B_INFO",
        "PCIDEVICE_INTEL_COM_A_B",
        "PCIDEVICE_INTEL_COM_A_B_INFO",
    ]
    assert envs["PCIDEVICE_INTEL_COM_A_B"] == envs["PCIDEVICE_INTEL_COM_A-B"]
    assert envs["PCIDEVICE_INTEL_COM_A_B_INFO"] == envs["PCIDEVICE_INTEL_COM_A-B_INFO"]


def test_ids_are_in_stable_order_each_once_for_any_request() -> None:
    chosen = pool_of(*(function(i) for i in range(4)))
    made = answer(chosen, "0000:3b:02.3", "0000:3b:02.0", "0000:3b:02.3", "0000:3b:02.1")
    envs = dict(made.envs)
    assert envs[ENV] == "0000:3b:02.0,0000:3b:02.1,0000:3b:02.3"
    assert list(json.loads(envs[f"{ENV}_INFO"])) == envs[ENV].split(",")


def test_vfio_brings_the_control_node_once_and_one_node_for_each_group() -> None:
    chosen = pool_of(vfio(0, 21), vfio(1, 22), vfio(2, 22))
    made = answer(chosen)
    assert made.nodes == (VFIO, *same("/dev/vfio/21", "/dev/vfio/22"))
    assert info(made)["vfio"] == {"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/21"}


def test_without_an_iommu_the_host_node_is_the_noiommu_one() -> None:
    made = answer(pool_of(vfio(0, 0, noiommu=True)))
    assert made.nodes == (VFIO, DeviceNode("/dev/vfio/0", "/dev/vfio/noiommu-0"))
    assert info(made)["vfio"]["dev-mount"] == "/dev/vfio/0"


@pytest.mark.parametrize("driver", ["uio", "igb_uio", "uio_pci_generic"])
def test_uio_drivers_bring_the_nodes_of_the_devices_uio_folder(driver: str) -> None:
    made = answer(pool_of(function(driver=driver, uio=("uio0", "uio10"))))
    assert made.nodes == same("/dev/uio0", "/dev/uio10")
    assert info(made)["uio"] == {"mount": "/dev/uio0,/dev/uio10"}


def test_uio_entries_of_another_driver_bring_nothing() -> None:
    made = answer(pool_of(function(driver="iavf", uio=("uio0",))))
    assert made.nodes == ()
    assert "uio" not in info(made)


def test_rdma_brings_the_nodes_of_all_rdma_devices_and_the_connection_manager_once() -> None:
    two = (rdma("mlx5_2", 2), rdma("mlx5_3", 3, issm=(), ucm=("/dev/infiniband/ucm3",)))
    chosen = pool_of(function(0, rdma=two), function(1, rdma=(rdma("mlx5_4", 4),)), isRdma=True)
    made = answer(chosen)
    assert made.nodes == same(
        "/dev/infiniband/issm2",
        "/dev/infiniband/umad2",
        "/dev/infiniband/uverbs2",
        "/dev/infiniband/umad3",
        "/dev/infiniband/uverbs3",
        "/dev/infiniband/ucm3",
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/issm4",
        "/dev/infiniband/umad4",
        "/dev/infiniband/uverbs4",
    )
    assert info(made)["rdma"] == {
        "rdma_dev": "mlx5_2,mlx5_3",
        "uverbs": "/dev/infiniband/uverbs2,/dev/infiniband/uverbs3",
        "umad": "/dev/infiniband/umad2,/dev/infiniband/umad3",
        "issm": "/dev/infiniband/issm2",
        "ucm": "/dev/infiniband/ucm3",
        "rdma_cm": "/dev/infiniband/rdma_cm",
    }


def test_missing_rdma_nodes_are_left_out_and_the_device_is_kept() -> None:
    bare = RdmaDevice("mlx5_0", uverbs=("/dev/infiniband/uverbs0",))
    made = answer(pool_of(function(rdma=(bare,)), isRdma=True), rdma_cm=False)
    assert made.nodes == same("/dev/infiniband/uverbs0")
    assert info(made)["rdma"] == {"rdma_dev": "mlx5_0", "uverbs": "/dev/infiniband/uverbs0"}


def test_only_the_selector_object_that_chose_the_device_decides_on_rdma() -> None:
    devices = (function(0, rdma=(rdma("mlx5_0", 0),)), function(1, rdma=(rdma("mlx5_1", 1),)))
    chosen = one_pool(
        host(PF0, *devices), {"pfNames": ["pf0#0"]}, {"pfNames": ["pf0#0-1"], "isRdma": True}
    )
    made = answer(chosen)
    assert "rdma" not in info(made)
    assert info(made, "0000:3b:02.1")["rdma"]["rdma_dev"] == "mlx5_1"
    assert "/dev/infiniband/uverbs0" not in {n.host_path for n in made.nodes}


def test_vhost_net_brings_its_two_nodes_once_for_all_devices() -> None:
    made = answer(pool_of(function(0), function(1), needVhostNet=True))
    assert made.nodes == same("/dev/vhost-net", "/dev/net/tun")
    assert info(made)["vhost"] == {"net-mount": "/dev/vhost-net", "tun-mount": "/dev/net/tun"}


def test_vhost_vdpa_has_its_character_device() -> None:
    vdpa = (VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0"),)
    made = answer(pool_of(function(vdpa=vdpa), vdpaType="vhost"))
    assert made.nodes == same("/dev/vhost-vdpa-0")
    assert info(made)["vdpa"] == {"mount": "/dev/vhost-vdpa-0"}


def test_virtio_vdpa_has_its_section_and_no_node() -> None:
    vdpa = (VdpaDevice("vdpa0", "virtio"),)
    made = answer(pool_of(function(vdpa=vdpa), vdpaType="virtio"))
    assert made.nodes == ()
    assert info(made)["vdpa"] == {}


def test_a_vdpa_device_that_is_not_selected_is_not_added() -> None:
    vdpa = (VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0"),)
    made = answer(pool_of(function(vdpa=vdpa)))
    assert (made.nodes, "vdpa" in info(made)) == ((), False)


def test_additional_info_is_merged_key_by_key_the_devices_own_last() -> None:
    extra = {"*": {"token": "all", "zone": "a"}, "0000:3b:02.1": {"token": "own"}}
    chosen = one_pool(host(PF0, function(0), function(1)), additionalInfo=extra)
    made = answer(chosen)
    assert info(made)["extra"] == {"token": "all", "zone": "a"}
    assert info(made, "0000:3b:02.1")["extra"] == {"token": "own", "zone": "a"}


def test_additional_info_of_a_sub_function_knows_its_parents_address_and_its_own_name() -> None:
    uplink = pf("0000:d8:00.0", "mlx0")
    extra = {
        "*": {"from": "all", "a": "1"},
        "0000:d8:00.0": {"from": "parent", "b": "2"},
        "mlx5_core.sf.2": {"from": "name"},
    }
    chosen = one_pool(
        host(uplink, sf(uplink, 1, 2), sf(uplink, 3, 4)),
        {"auxTypes": ["sf"]},
        deviceType="auxNetDevice",
        additionalInfo=extra,
    )
    made = answer(chosen)
    assert info(made, "mlx5_core.sf.2")["extra"] == {"from": "name", "a": "1", "b": "2"}
    assert info(made, "mlx5_core.sf.4")["extra"] == {"from": "parent", "a": "1", "b": "2"}


def test_every_device_of_a_pool_with_additional_info_has_the_extra_section() -> None:
    chosen = one_pool(host(PF0, function()), additionalInfo={"0000:ff:00.0": {"a": "b"}})
    assert info(answer(chosen))["extra"] == {}


def test_all_sections_and_nodes_together_are_in_a_fixed_order() -> None:
    device = vfio(0, 7, rdma=(RdmaDevice("irdma0", uverbs=("/dev/infiniband/uverbs0",)),))
    chosen = one_pool(
        host(PF0, device),
        {"isRdma": True, "needVhostNet": True},
        additionalInfo={"*": {"k": "v"}},
    )
    made = answer(chosen)
    assert list(info(made)) == ["extra", "generic", "rdma", "vfio", "vhost"]
    assert [n.container_path for n in made.nodes] == [
        "/dev/vfio/vfio",
        "/dev/vfio/7",
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/rdma_cm",
        "/dev/vhost-net",
        "/dev/net/tun",
    ]


def test_all_nodes_may_be_read_and_written() -> None:
    assert {n.permissions for n in answer(pool_of(vfio(0, 1), needVhostNet=True)).nodes} == {"rw"}


def test_empty_additional_info_makes_an_empty_section_and_none_makes_none() -> None:
    node = host(PF0, function())
    assert info(answer(one_pool(node, additionalInfo={})))["extra"] == {}
    assert info(answer(one_pool(node, additionalInfo={"*": None})))["extra"] == {}
    assert "extra" not in info(answer(one_pool(node, additionalInfo=None)))


def test_the_info_is_byte_for_byte_that_of_the_go_plugin() -> None:
    extra = {"*": {"z": '<a href="x">&</a>', "a": "\u00fc\u2028\u00e9", "": "a\nb\t\\"}}
    made = answer(one_pool(host(PF0, vfio(0, 104)), additionalInfo=extra))
    assert dict(made.envs)[f"{ENV}_INFO"] == (
        '{"0000:3b:02.0":{"extra":{"":"a\\nb\\t\\\\","a":"\u00fc\\u2028\u00e9",'
        '"z":"\\u003ca href=\\"x\\"\\u003e\\u0026\\u003c/a\\u003e"},'
        '"generic":{"deviceID":"0000:3b:02.0"},'
        '"vfio":{"dev-mount":"/dev/vfio/104","mount":"/dev/vfio/vfio"}}}'
    )


def test_a_value_that_is_not_text_is_sent_as_text() -> None:
    made = answer(one_pool(host(PF0, function()), additionalInfo={"*": {"a": "\ud800"}}))
    assert info(made)["extra"] == {"a": "\ufffd"}


def test_an_info_value_with_odd_characters_stays_valid_json() -> None:
    extra = {"*": {'quo"te': "line\nfeed", "ü": "<&>"}}
    made = answer(one_pool(host(PF0, function()), additionalInfo=extra))
    assert info(made)["extra"] == extra["*"]
    assert "\n" not in dict(made.envs)[f"{ENV}_INFO"]


def test_ids_that_are_not_in_the_pool_are_refused_and_all_named() -> None:
    with pytest.raises(UnknownDeviceError) as refused:
        answer(pool_of(function()), "0000:3b:02.0", "b", "a", "b")
    assert refused.value.device_ids == ("a", "b")
    assert refused.value.resource == "intel.com/vf"


def test_a_device_that_is_no_longer_on_the_host_is_refused() -> None:
    chosen = assigned(host(PF0), pool("vf"), held=held("vf", function())).pools[0]
    with pytest.raises(DeviceNotUsableError, match=r"^0000:3b:02\.0: is no longer on the host$"):
        answer(chosen)


@pytest.mark.parametrize(
    ("device", "selectors", "lack"),
    [
        (vfio(0, None), {}, "is bound to vfio-pci but has no IOMMU group"),
        (function(driver="igb_uio"), {}, "is bound to igb_uio but has no UIO node"),
        (
            function(rdma_enabled=True),
            {"isRdma": True},
            "has no RDMA device in the host's network namespace",
        ),
        (
            function(vdpa=(VdpaDevice("vdpa0", "vhost"),)),
            {"vdpaType": "vhost"},
            "has no vhost-vdpa node (driver vhost_vdpa)",
        ),
    ],
    ids=["vfio", "uio", "rdma", "vdpa"],
)
def test_a_required_node_that_is_missing_refuses_the_whole_request(
    device: Device, selectors: dict[str, object], lack: str
) -> None:
    chosen = pool_of(device, **selectors)
    with pytest.raises(DeviceNotUsableError) as refused:
        answer(chosen)
    assert (refused.value.device_id, refused.value.reason) == (device.id, lack)


def test_an_empty_request_gets_an_empty_answer() -> None:
    chosen = pool_of(function())
    made = allocation(chosen.config, members_for(chosen, ()), HostNodes(rdma_cm=True))
    assert made == Allocation(envs=((ENV, ""), (f"{ENV}_INFO", "{}")))

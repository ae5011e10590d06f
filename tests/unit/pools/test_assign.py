from __future__ import annotations

import json

import pytest

from agent.config.load import load_config
from agent.kinds import ACCELERATOR, NET_DEVICE
from agent.model.device import Netdev, Role
from agent.pools.advice import advise
from agent.pools.assign import assign
from agent.pools.pool import Overlap
from agent.pools.reasons import pool_verdict
from agent.selectors import SELECTORS, Shape
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import assigned, config, members, one_pool, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
VFS = tuple(vf(f"0000:3b:02.{i}", PF0, i) for i in range(4))
NODE = host(PF0, *VFS)
ALL = [v.id for v in VFS]
IAVF = {"drivers": ["iavf"]}


def ids(*numbers: int) -> list[str]:
    return [VFS[n].id for n in numbers]


def test_a_pool_without_filters_takes_every_function_of_its_kind() -> None:
    assert members(assigned(NODE, pool("vf"))) == {"vf": ALL}


def test_the_first_pool_that_matches_gets_the_device() -> None:
    pools = assigned(
        NODE,
        pool("low", {"pfNames": ["pf0#0-1"]}),
        pool("rest", {"pfNames": ["pf0"]}),
        pool("late"),
    )
    assert members(pools) == {"low": ids(0, 1), "rest": ids(2, 3), "late": []}


def test_devices_that_a_later_pool_matches_too_are_an_overlap() -> None:
    pools = assigned(
        NODE,
        pool("low", {"pfNames": ["pf0#0-1"]}),
        pool("rest", {"pfNames": ["pf0"]}),
        pool("late"),
    )
    assert pools.overlaps == (
        Overlap("intel.com/low", "intel.com/rest", tuple(ids(0, 1))),
        Overlap("intel.com/low", "intel.com/late", tuple(ids(0, 1))),
        Overlap("intel.com/rest", "intel.com/late", tuple(ids(2, 3))),
    )


def test_disjoint_pools_have_no_overlap() -> None:
    pools = assigned(NODE, pool("a", {"pfNames": ["pf0#0"]}), pool("b", {"pfNames": ["pf0#1-3"]}))
    assert pools.overlaps == ()


def test_a_device_must_match_all_filters_of_one_object() -> None:
    assert not one_pool(NODE, {"vendors": ["8086"], "drivers": ["vfio-pci"]}).members


def test_any_of_several_objects_is_enough_and_the_first_is_noted() -> None:
    chosen = one_pool(NODE, {"pfNames": ["pf0#2"]}, {"pfNames": ["pf0#1-2"], **IAVF})
    assert [(m.device.id, m.selector_object) for m in chosen.members] == [
        (VFS[1].id, 1),
        (VFS[2].id, 0),
    ]
    assert [m.selectors for m in chosen.members] == [
        chosen.config.selectors[1],
        chosen.config.selectors[0],
    ]


def test_a_device_that_two_objects_of_one_pool_match_is_not_an_overlap() -> None:
    pools = assigned(NODE, pool("vf", {"pfNames": ["pf0"]}, IAVF))
    assert members(pools) == {"vf": ALL}
    assert pools.overlaps == ()


def test_a_pf_with_vfs_is_never_a_device_even_if_its_address_is_named() -> None:
    assert not one_pool(NODE, {"pciAddresses": [PF0.id]}).members
    assert not one_pool(NODE, {"pciAddresses": [PF0.id]}, allowInUse=True).members


def test_an_accelerator_pf_with_vfs_is_never_a_device_either() -> None:
    fec = pf("0000:b0:00.0", kind=ACCELERATOR, pci_class=0x120000, num_vfs=1)
    vfs = (vf("0000:b0:00.1", fec, 0, pci_class=0x120000),)
    assert members(assigned(host(fec, *vfs), pool("fec", deviceType="accelerator"))) == {
        "fec": ["0000:b0:00.1"]
    }


def test_a_pf_without_vfs_is_a_device() -> None:
    spare = pf("0000:3b:00.1", "pf1", num_vfs=0)
    assert members(assigned(host(PF0, spare), pool("pf"))) == {"pf": ["0000:3b:00.1"]}


def test_each_kind_of_pool_takes_its_own_kind_only() -> None:
    mlx = pf("0000:d8:00.0", "mlx0", vendor="15b3")
    sub = sf(mlx, 88, netdevs=(Netdev("mlx0s88"),))
    fec = pf("0000:b0:00.0", kind=ACCELERATOR, pci_class=0x120000)
    pools = assigned(
        host(mlx, fec, sub),
        pool("net"),
        pool("fec", deviceType="accelerator"),
        pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice"),
    )
    assert members(pools) == {"net": [mlx.id], "fec": [fec.id], "sf": [sub.id]}


def test_members_are_sorted_by_pf_then_index_then_id_in_natural_order() -> None:
    second = pf("0000:3b:00.1", "pf1", num_vfs=2)
    late = [vf("0000:3b:0a.1", second, 0), vf("0000:3b:0a.0", second, 1)]
    early = [vf(f"0000:3b:02.{i}", PF0, 10 - i) for i in range(3)]
    far = pf("10000:01:00.0", "vmd0")
    node = host(*late, far, *early, PF0, second)
    assert [m.device.id for m in one_pool(node).members] == [
        "0000:3b:02.2",
        "0000:3b:02.1",
        "0000:3b:02.0",
        "0000:3b:0a.1",
        "0000:3b:0a.0",
        "10000:01:00.0",
    ]


def test_sub_functions_are_sorted_by_sfnum_and_then_by_number() -> None:
    uplink = pf("0000:d8:00.0", "mlx0")
    subs = [sf(uplink, 7, 12), sf(uplink, 7, 3), sf(uplink, 100, 1), sf(uplink, 20, 2)]
    chosen = one_pool(host(uplink, *subs), {"auxTypes": ["sf"]}, deviceType="auxNetDevice")
    assert [m.device.id for m in chosen.members] == [
        "mlx5_core.sf.3",
        "mlx5_core.sf.12",
        "mlx5_core.sf.2",
        "mlx5_core.sf.1",
    ]


def test_functions_without_a_known_pf_are_sorted_by_their_own_address() -> None:
    guests = [vf(f"0000:0{n}:00.0", None) for n in (9, 4, 6)]
    assert [m.device.id for m in one_pool(host(*guests)).members] == [
        "0000:04:00.0",
        "0000:06:00.0",
        "0000:09:00.0",
    ]


def test_a_device_joins_with_the_next_snapshot_after_its_driver_is_bound() -> None:
    bare = vf("0000:3b:02.0", PF0, 0, driver=None)
    pools = config(pool("vf", IAVF))
    before = assign(host(PF0, bare, *VFS[1:]), pools)
    after = assign(NODE, pools)
    assert members(before) == {"vf": ids(1, 2, 3)}
    assert members(after) == {"vf": ALL}


def test_a_device_moves_between_pools_when_its_driver_changes() -> None:
    pools = config(pool("kernel", IAVF), pool("dpdk", {"drivers": ["vfio-pci"]}))
    moved = vf(VFS[0].id, PF0, 0, driver="vfio-pci", iommu_group=7)
    assert members(assign(NODE, pools)) == {"kernel": ALL, "dpdk": []}
    assert members(assign(host(PF0, moved, *VFS[1:]), pools)) == {
        "kernel": ids(1, 2, 3),
        "dpdk": ids(0),
    }


def test_notes_have_the_reason_why_a_selector_matches_nothing_on_this_host() -> None:
    (note,) = one_pool(NODE, {"pfNames": ["mlx-*"]}).notes
    assert "mlx-*" in note
    assert "pf0" in note


def test_each_note_is_logged_once_even_if_several_objects_cause_it() -> None:
    wanted = {"drivers": ["mlx5_core"]}
    assert len(one_pool(NODE, {"pfNames": ["pf0#0"], **wanted}, wanted).notes) == 1


def test_other_auxiliary_devices_are_selected_by_their_type() -> None:
    uplink = pf("0000:d8:00.0", "mlx0")
    eth = sf(uplink, 0, id="mlx5_core.eth.0", role=Role.AUX, index=None, aux_type="eth")
    node = host(uplink, eth, sf(uplink, 1))
    chosen = one_pool(node, {"auxTypes": ["sf"]}, deviceType="auxNetDevice")
    assert [m.device.aux_type for m in chosen.members] == ["sf"]


def test_two_runs_over_the_same_values_give_the_same_outcome() -> None:
    pools = config(pool("a", {"pfNames": ["pf0#0-1"]}), pool("b"))
    assert assign(NODE, pools) == assign(NODE, pools)


def test_a_vf_whose_netdev_is_in_a_pod_or_that_has_none_has_the_link_type_of_its_pf() -> None:
    here = vf("0000:3b:02.0", PF0, 0, netdevs=(Netdev("ens0v0", link_type="ether"),))
    in_a_pod, dpdk = vf("0000:3b:02.1", PF0, 1), vf("0000:3b:02.2", PF0, 2, driver="vfio-pci")
    chosen = one_pool(host(PF0, here, in_a_pod, dpdk), {"linkTypes": ["ether"]})
    assert [m.device.id for m in chosen.members] == [here.id, in_a_pod.id, dpdk.id]
    assert one_pool(host(PF0, here, dpdk), {"linkTypes": ["infiniband"]}).members == ()


def test_without_a_netdev_on_the_pf_the_pci_class_decides_on_infiniband() -> None:
    parent = pf("0000:5e:00.0", None, driver="vfio-pci", num_vfs=1, pci_class=0x020700)
    child = vf("0000:5e:00.1", parent, 0, driver="vfio-pci", pci_class=0x020700)
    ethernet = pf("0000:5f:00.0", None, driver="vfio-pci")
    node = host(parent, child, ethernet)
    assert [m.device for m in one_pool(node, {"linkTypes": ["ib"]}).members] == [child]
    assert one_pool(node, {"linkTypes": ["ether"]}).members == ()


@pytest.mark.parametrize(
    "key", [k for k, s in SELECTORS.items() if s.shape is Shape.LIST and NET_DEVICE in s.kinds]
)
def test_an_object_none_of_whose_values_can_match_takes_no_device(key: str) -> None:
    full = vf("0000:3b:02.5", PF0, 5, acpi_index="1", ddp_profile="x", pkey=1, pci_class=0x020700)
    text = {"resourceName": "vf", "selectors": [{key: [" ", None]}, {"vendors": ["15b3"]}]}
    loaded = load_config(
        json.dumps({"resourceList": [text]}).encode(), source="f", default_prefix="intel.com"
    )
    assert loaded.config is not None
    pools = assign(host(*NODE.devices, full), loaded.config)
    assert pools.pools[0].members == ()
    verdict = pool_verdict(full, pools.config.pools[0], pools).objects[0]
    assert verdict.text.endswith("wanted (no value that can match)")
    why = advise(pools.pools[0], pools).why_empty[0]
    assert why == (
        f"selector object 1: none of the values of {key} can match: `validate` shows why"
    )


def test_pf_names_match_in_any_case() -> None:
    upper = pf("0000:5e:00.0", "Ethernet4", num_vfs=2)
    vfs = [vf(f"0000:5e:02.{i}", upper, i) for i in range(2)]
    node = host(*NODE.devices, upper, *vfs)
    pools = assigned(
        node,
        pool("range", {"pfNames": ["PF0#0-1", "pf0#3"]}),
        pool("name", {"pfNames": ["ethernet4#1"]}),
        pool("pattern", {"pfNames": ["ETH*[0-9]"]}),
    )
    assert members(pools) == {
        "range": [VFS[0].id, VFS[1].id, VFS[3].id],
        "name": [vfs[1].id],
        "pattern": [vfs[0].id],
    }
    assert pools.pools[1].notes == ()


def test_the_driver_of_a_sub_function_or_of_its_function_selects_it() -> None:
    parent = pf("0000:08:00.0", "p0", driver="mlx5_core")
    other = pf("0000:09:00.0", "p1", driver="ice")
    chosen, foreign = sf(parent, 1, 2), sf(other, 1, 3, driver="ice.sf")
    node = host(parent, other, chosen, foreign)
    for driver in ("mlx5_core", "mlx5_core.sf"):
        selectors = {"auxTypes": ["sf"], "drivers": [driver]}
        made = one_pool(node, selectors, deviceType="auxNetDevice")
        assert [m.device for m in made.members] == [chosen]
        assert made.notes == ()


def test_a_vf_of_unknown_index_is_in_no_range_of_its_named_pf() -> None:
    parent = pf("0000:3b:00.0", "pf0", num_vfs=2)
    numbered, unknown = vf("0000:3b:02.0", parent, 0), vf("0000:3b:02.1", parent, None)
    snapshot = host(parent, numbered, unknown)
    assert members(assigned(snapshot, pool("vf", {"pfNames": ["pf0#0-63"]}))) == {
        "vf": [numbered.id]
    }
    assert members(assigned(snapshot, pool("vf", {"pfNames": ["pf0"]}))) == {
        "vf": [unknown.id, numbered.id]
    }

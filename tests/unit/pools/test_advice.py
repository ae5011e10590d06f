"""The usual causes of an empty pool, each with what an operator reads: cause and fix."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.pools.advice import Advice, advise
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.assign import assign
from agent.pools.pool import Pools
from tests.support.hardware import ACC100, E810, X710
from tests.support.host_builder import HostBuilder
from tests.support.pools import Json, pool

UPLINK, PF, OTHER = "0000:18:00.0", "0000:3b:00.0", "0000:5e:00.0"
PF0 = {"pfNames": ["ens1f0"]}


class Node:
    """A host with an uplink and a PF of four VFs, and what pools make of it."""

    def __init__(self, folder: Path) -> None:
        self.host = HostBuilder(folder)
        self.host.pf(UPLINK, "eno1", X710)
        self.host.default_route("eno1")
        self.host.pf(PF, "ens1f0", vfs=4)

    def assigned(self, *pools: Json, held: AllocatedDevices | None = None) -> Pools:
        text = json.dumps({"resourceList": list(pools)}).encode()
        loaded = load_config(text, source="config.json", default_prefix="example.com")
        assert loaded.config is not None
        return assign(scan(self.host.roots), loaded.config, held or AllocatedDevices())

    def why(self, *pools: Json, held: AllocatedDevices | None = None) -> str:
        """Why the last of the pools is empty."""
        made = self.assigned(*pools, held=held)
        return "\n".join(advise(made.pools[-1], made).why_empty)

    def advice(self, *pools: Json) -> Advice:
        """All that is told of the only pool."""
        made = self.assigned(*pools)
        return advise(made.pools[0], made)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_pool_with_devices_needs_no_advice(node: Node) -> None:
    assert node.why(pool("vf", PF0)) == ""


def test_a_wrong_driver_is_explained(node: Node) -> None:
    assert node.why(pool("vf", PF0 | {"drivers": ["vfio-pci"]})) == (
        "drivers vfio-pci leaves none of 4 functions: driver iavf (4); bind them to it, for "
        "example `driverctl set-override 0000:3b:01.0 vfio-pci`; "
        'or select "drivers": ["iavf"]'
    )


def test_a_wrong_driver_is_explained_if_other_functions_have_the_wanted_one(node: Node) -> None:
    node.host.pf(OTHER, "ens2f0")
    node.host.add_vfs(OTHER, 2, E810.vf.vfio)
    assert "leaves none of 4 functions: driver iavf (4)" in node.why(
        pool("vf", PF0 | {"drivers": ["vfio-pci"]})
    )


@pytest.mark.parametrize("is_bound", [True, False])
def test_the_driver_of_a_netdev_is_not_that_of_a_function(
    node: Node,
    is_bound: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if not is_bound:
        for vf in node.host.vfs(PF):
            node.host.set_driver(vf, None)
    why = node.why(pool("vf", PF0 | {"drivers": ["mlx4_en"]}))
    assert 'the driver of the PCI function is mlx4_core: write "mlx4_core"' in why
    assert "modprobe" not in why


def test_advice_names_the_driver_that_can_be_bound_to_everything(node: Node) -> None:
    why = node.why(pool("vf", PF0 | {"drivers": ["igb_uio", "pci-pf-stub", "vfio-pci"]}))
    assert "driverctl set-override 0000:3b:01.0 vfio-pci" in why


def test_functions_of_pfs_without_a_netdev_are_called_by_address(node: Node) -> None:
    node.host.pf(OTHER, None, attrs.evolve(E810, driver="vfio-pci"))
    node.host.add_vfs(OTHER, 2, E810.vf.vfio)
    node.host.pf("0000:5f:00.0", None, attrs.evolve(E810, driver="vfio-pci"))
    why = node.why(pool("vf", {"drivers": ["vfio-pci"], "pfNames": ["ens1f0"]}))
    assert "functions of ens1f0 (4)" not in why
    named = node.why(pool("vf", {"vendors": ["8086"], "pfNames": ["ens9"]}))
    assert f"functions of {OTHER}, which has no netdev here (2)" in named
    assert "the PF 0000:5f:00.0 itself, without a netdev (1)" in named
    assert "the PF eno1 itself (1)" in named


def test_an_rdma_device_belongs_to_the_netdev_of_its_function(node: Node) -> None:
    node.host.rdma(PF, "irdma0")
    why = node.why(pool("vf", {"pfNames": ["irdma0"]}))
    assert f"irdma0 is the RDMA device of {PF}: the netdev of its PF is ens1f0" in why


def test_unbound_functions_are_explained(node: Node) -> None:
    for vf in node.host.vfs(PF):
        node.host.set_driver(vf, None)
    assert node.why(pool("vf", PF0 | {"drivers": ["iavf"]})) == (
        "drivers iavf leaves none of 4 functions: no driver bound (4); bind one: "
        "`modprobe iavf`, then `echo 0000:3b:01.0 > /sys/bus/pci/drivers_probe`"
    )


def test_matching_functions_without_a_driver_are_explained(node: Node) -> None:
    for vf in node.host.vfs(PF):
        node.host.set_driver(vf, None)
    assert node.why(pool("vf", PF0)) == (
        "no driver is bound to the 4 functions that match, so no pod could use them; load the "
        "module of the driver, then bind one: `echo 0000:3b:01.0 > /sys/bus/pci/drivers_probe`, "
        "or `driverctl set-override 0000:3b:01.0 vfio-pci`"
    )


def test_sub_functions_without_a_driver_are_explained(node: Node) -> None:
    node.host.auxiliary(UPLINK, "mlx5_core.sf.2")
    assert node.why(pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice")) == (
        "no driver is bound to mlx5_core.sf.2, so no pod could use it; load the module of its "
        "driver (for mlx5 SFs: `modprobe mlx5_core`)"
    )


def test_the_pf_of_sub_functions_that_pods_use_is_explained(node: Node) -> None:
    node.host.pf(OTHER, "ens2f0")
    sub = node.host.sf(OTHER, 88, "ens2f0s88")
    pods = AllocatedDevices(holders={sub: PodOwner("example.com/sf", "worker", "test", "main")})
    assert node.why(pool("pf", {"pciAddresses": [OTHER]}), held=pods) == (
        f"PFs are not allocated while pods use their sub-functions: {OTHER} "
        f"(pods use its sub-functions: {sub})"
    )


def test_the_uplink_is_never_the_example_for_binding(node: Node) -> None:
    assert f"set-override {UPLINK}" not in node.why(pool("vf", {"drivers": ["vfio-pci"]}))


def test_a_wrong_vendor_is_explained(node: Node) -> None:
    assert node.why(pool("vf", {"vendors": ["15b3"]})) == (
        "vendors 15b3 leaves none of 5 functions: vendor 8086 (5); set vendors to one of "
        "these; `lspci -nn` shows the ids of all functions"
    )


def test_a_wrong_device_id_is_explained(node: Node) -> None:
    assert "devices 154c leaves none of 5 functions: device 1572 (1), device 1889 (4)" in node.why(
        pool("vf", {"vendors": ["8086"], "devices": ["154c"]})
    )


def test_a_changed_name_of_the_pf_is_explained(node: Node) -> None:
    why = node.why(pool("vf", {"pfNames": ["ens1f1"]}))
    assert "functions of ens1f0 (4), the PF eno1 itself (1)" in why
    assert "no PF on this host is named ens1f1; PFs here: eno1, ens1f0; did you mean ens1f0?" in why


def test_a_glob_that_matches_no_pf_is_explained(node: Node) -> None:
    why = node.why(pool("vf", {"pfNames": ["mlx-*"]}))
    assert "no PF on this host matches mlx-*; PFs here: eno1, ens1f0" in why
    assert why.endswith("write the name of one of these, or a pattern that matches it")


def test_missing_vfs_of_a_named_pf_are_explained(node: Node) -> None:
    node.host.remove_vfs(PF)
    why = node.why(pool("vf", PF0))
    assert "ens1f0 has no VFs" in why
    assert "for VFs write a number up to 128 to its sriov_numvfs" in why


def test_missing_vfs_with_a_device_id_are_explained(node: Node) -> None:
    node.host.remove_vfs(PF)
    assert node.why(pool("vf", {"devices": ["1889"]})).endswith(
        "these PFs have no VFs and support up to 128: eno1 (0000:18:00.0), "
        "ens1f0 (0000:3b:00.0): write a number to /sys/bus/pci/devices/ADDRESS/sriov_numvfs"
    )


def test_a_range_beyond_the_existing_functions_is_explained(node: Node) -> None:
    why = node.why(pool("vf", {"pfNames": ["ens1f0#8-15"]}))
    assert "ens1f0#8-15 covers functions that do not exist: ens1f0 has 4 (index 0 to 3)" in why
    assert why.endswith("make more VFs by sriov_numvfs (at most ens1f0 128)")


def test_a_function_in_use_by_the_host_is_explained(node: Node) -> None:
    assert node.why(pool("vf", {"pciAddresses": [UPLINK]})) == (
        "in use by the host: 0000:18:00.0 (eno1 carries the default route); select other "
        'functions, or set "allowInUse": true if the host does not need them'
    )


def test_a_function_in_an_earlier_pool_is_explained(node: Node) -> None:
    why = node.why(pool("first", {"drivers": ["iavf"]}), pool("vf", {"pfNames": ["ens1f0#0-1"]}))
    assert why == (
        "the 2 functions that match are taken: by example.com/first (2); the first pool in "
        "the file gets a function: make the selectors disjoint, or change the order of pools"
    )


def test_devices_held_as_a_resource_that_no_longer_exists_are_explained(node: Node) -> None:
    holder = PodOwner("example.com/old", "worker", "test", "main")
    held = AllocatedDevices(holders=dict.fromkeys(node.host.vfs(PF), holder))
    assert "by pod test/worker as example.com/old (4)" in node.why(pool("vf", PF0), held=held)


def test_a_wrong_link_type_is_explained(node: Node) -> None:
    assert node.why(pool("vf", PF0 | {"linkTypes": ["infiniband"]})) == (
        "linkTypes infiniband leaves none of 4 functions: link type ether (4); "
        'select "linkTypes": ["ether"], or change the port\'s type in its firmware'
    )


def test_a_link_type_is_evaluated_for_functions_whose_pf_has_no_netdev_either(node: Node) -> None:
    node.host.pf(OTHER, None, attrs.evolve(E810, driver="vfio-pci"))
    node.host.add_vfs(OTHER, 2, E810.vf.vfio)
    why = node.why(pool("vf", {"rootDevices": [OTHER], "linkTypes": ["ether"]}))
    assert "no link type: neither the function nor its PF has a netdev here (2)" in why
    assert "leave linkTypes out" in why


def test_a_missing_rdma_module_is_explained(node: Node) -> None:
    why = node.why(pool("vf", PF0 | {"isRdma": True}))
    assert "load the kernel module that creates them (irdma for vendor 8086)" in why
    assert why.endswith("name enable_rdma`, or leave isRdma out")


def test_a_device_type_that_is_not_on_this_host_is_explained(node: Node) -> None:
    assert node.why(pool("fec", {"vendors": ["8086"]}, deviceType="accelerator")) == (
        "no accelerator function (PCI class 0x12) on this host; there are netDevice (6): "
        'is "deviceType": "accelerator" intended?'
    )


def test_hardware_of_another_device_type_is_explained(node: Node) -> None:
    node.host.accelerator("0000:b0:00.0", attrs.evolve(ACC100, driver="pci-pf-stub"), vfs=2)
    assert 'of "deviceType": "accelerator" 2 would match' in node.why(
        pool("fec", {"devices": ["0d5d"]})
    )


def test_sub_functions_that_were_not_created_are_explained(node: Node) -> None:
    why = node.why(pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice"))
    assert why.startswith(
        "no auxiliary network device on this host: make sub-functions with `devlink port add"
    )


def test_a_host_without_any_function_is_explained(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for bdf in (*node.host.vfs(PF), PF, UPLINK):
        node.host.remove(bdf)
    assert "check that the host's /sys is mounted" in node.why(pool("vf"))


def test_each_selector_object_has_its_own_sentence(node: Node) -> None:
    why = node.why(pool("vf", {"pfNames": ["ens9"]}, {"drivers": ["vfio-pci"]}))
    assert [line.partition(": ")[0] for line in why.splitlines()] == [
        "selector object 1",
        "selector object 2",
    ]


def test_an_rdma_driver_that_binds_below_the_function_is_not_advised_to_bind(node: Node) -> None:
    why = node.why(pool("vf", PF0 | {"drivers": ["mlx5_ib"]}))
    assert "use isRdma instead" in why
    assert "driverctl" not in why


def test_a_misspelt_driver_is_guessed(node: Node) -> None:
    assert "did you mean iavf?" in node.why(pool("vf", PF0 | {"drivers": ["iavff"]}))


def test_a_note_that_repeats_the_cause_is_omitted_and_other_notes_stay(node: Node) -> None:
    told = node.advice(pool("vf", {"pfNames": ["ens9"], "drivers": ["vfio-pci"]}))
    assert [note.partition(":")[0] for note in told.notes] == ["drivers"]


def test_a_pool_with_devices_keeps_its_notes(node: Node) -> None:
    told = node.advice(pool("vf", {"pfNames": ["ens1f0", "ens9"]}))
    assert told.why_empty == ()
    assert "no PF on this host is named ens9" in told.notes[0]

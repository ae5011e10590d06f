from __future__ import annotations

from typing import Any

import pytest

from agent.model.device import Device, Netdev
from agent.model.snapshot import Snapshot
from agent.pools.guard import functions_in_use
from tests.support.devices import pf, sf, vf
from tests.support.pools import assigned, held, members, pool

ENS1 = pf("0000:3b:00.0", "ens1")
ENS2 = pf("0000:3b:00.1", "ens2")
ROUTE = "ens1 carries the default route"


def node(
    *devices: Device,
    routes: tuple[str, ...] = (),
    below: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Snapshot:
    return Snapshot(devices=devices, default_route_netdevs=routes, netdev_parents=below)


def with_netdev(device: Device, name: str, **facts: object) -> Device:
    return pf(device.id, name, netdevs=(Netdev(name, **facts),))  # type: ignore[arg-type]


def test_the_pf_with_the_default_route_is_kept_out_of_pools_and_its_sibling_is_not() -> None:
    pools = assigned(node(ENS1, ENS2, routes=("ens1",)), pool("nic", {"vendors": ["8086"]}))
    assert members(pools) == {"nic": [ENS2.id]}
    assert pools.in_use == {ENS1.id: ROUTE}


def test_with_allow_in_use_even_the_uplink_is_a_device() -> None:
    pools = assigned(node(ENS1, ENS2, routes=("ens1",)), pool("nic", allowInUse=True))
    assert members(pools) == {"nic": [ENS1.id, ENS2.id]}


def test_allow_in_use_affects_only_its_own_pool() -> None:
    host = node(ENS1, ENS2, routes=("ens1",))
    pools = assigned(host, pool("strict"), pool("bold", allowInUse=True))
    assert members(pools) == {"strict": [ENS2.id], "bold": [ENS1.id]}


@pytest.mark.parametrize(
    ("below", "top"),
    [
        ((("vlan5", ("ens1",)),), "vlan5"),
        ((("bond0", ("ens1", "ens9")),), "bond0"),
        ((("br0", ("ens1",)),), "br0"),
        (
            (("bond0", ("ens1", "ens9")), ("br-ex", ("vlan5", "tap0")), ("vlan5", ("bond0",))),
            "br-ex",
        ),
    ],
    ids=["vlan", "bond", "bridge", "bridge on vlan on bond"],
)
def test_the_default_route_is_followed_down_through_all_stacked_interfaces(
    below: tuple[tuple[str, tuple[str, ...]], ...], top: str
) -> None:
    used = functions_in_use(node(ENS1, ENS2, routes=(top,), below=below))
    assert used == {ENS1.id: f"ens1 carries {top}, which has the default route"}


def test_a_circle_of_stacked_interfaces_is_handled() -> None:
    below = (("a", ("b",)), ("b", ("a", "ens1")))
    assert list(functions_in_use(node(ENS1, routes=("a",), below=below))) == [ENS1.id]


def test_every_interface_of_a_multipath_route_is_guarded() -> None:
    assert set(functions_in_use(node(ENS1, ENS2, routes=("ens1", "ens2")))) == {ENS1.id, ENS2.id}


def test_a_route_through_an_interface_without_hardware_guards_nothing() -> None:
    assert functions_in_use(node(ENS1, ENS2, routes=("wg0",))) == {}


def test_a_vf_that_carries_the_default_route_is_guarded_too() -> None:
    uplink = pf("0000:3b:00.0", "pf0", num_vfs=2)
    used = vf("0000:3b:02.0", uplink, 0, netdevs=(Netdev("ens1v0"),))
    free = vf("0000:3b:02.1", uplink, 1, netdevs=(Netdev("ens1v1"),))
    pools = assigned(node(uplink, used, free, routes=("ens1v0",)), pool("vf"))
    assert members(pools) == {"vf": [free.id]}


def test_vfs_of_the_uplink_pf_are_still_devices() -> None:
    uplink = pf("0000:3b:00.0", "pf0", num_vfs=1)
    free = vf("0000:3b:02.0", uplink, 0, netdevs=(Netdev("ens1v0"),))
    pools = assigned(node(uplink, free, routes=("pf0",)), pool("vf"))
    assert members(pools) == {"vf": [free.id]}


def test_sub_functions_of_the_uplink_pf_are_still_devices() -> None:
    sub = sf(ENS1, 1, netdevs=(Netdev("ens1s1"),))
    pools = assigned(
        node(ENS1, sub, routes=("ens1",)),
        pool("pf"),
        pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice"),
    )
    assert members(pools) == {"pf": [], "sf": [sub.id]}


def test_a_sub_function_that_carries_the_default_route_itself_is_guarded() -> None:
    sub = sf(ENS1, 1, netdevs=(Netdev("ens1s1"),))
    used = functions_in_use(node(ENS1, ENS2, sub, routes=("ens1s1",)))
    assert used == {
        sub.id: "ens1s1 carries the default route",
        ENS1.id: "its sub-function ens1s1 carries the default route",
    }


@pytest.mark.parametrize("master", ["bond0", "br0", "team0", "ovs-system"])
def test_a_pf_that_is_part_of_something_is_in_use_without_any_route(master: str) -> None:
    member = with_netdev(ENS1, "ens1", master=master, uppers=(master,))
    assert functions_in_use(node(member)) == {ENS1.id: f"ens1 is part of {master}"}


def test_a_pf_that_carries_vlans_is_in_use_without_any_route() -> None:
    carrier = with_netdev(ENS1, "ens1", uppers=("vlan5", "vlan6"))
    assert functions_in_use(node(carrier)) == {ENS1.id: "ens1 carries vlan5, vlan6"}


UPLINK = pf("0000:5e:00.0", "pf0", num_vfs=2)
USED = vf("0000:5e:02.0", UPLINK, 0, netdevs=(Netdev("v0"),))
FREE = vf("0000:5e:02.1", UPLINK, 1, netdevs=(Netdev("v1"),))
SUB = sf(ENS1, 1, netdevs=(Netdev("s0"),))
SFS = pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice")


@pytest.mark.parametrize(
    ("facts", "how"),
    [
        ({"netdev_parents": (("bond1", ("v0",)),), "masters": (("v0", "bond1"),)}, "part of bond1"),
        ({"netdev_parents": (("v0.7", ("v0",)),)}, "carries v0.7"),
        ({"routed_netdevs": ("v0",)}, "has an IP address and a route"),
    ],
    ids=["bond", "VLAN", "address and route"],
)
def test_a_vf_that_the_host_uses_is_kept_out_with_the_reason(
    facts: dict[str, Any], how: str
) -> None:
    host = Snapshot(devices=(UPLINK, USED, FREE), **facts)
    pools = assigned(host, pool("vf", {"pfNames": ["pf0"]}))
    assert members(pools) == {"vf": [FREE.id]}
    assert how in pools.in_use[USED.id]
    allowed = assigned(host, pool("vf", {"pfNames": ["pf0"]}, allowInUse=True))
    assert members(allowed) == {"vf": [USED.id, FREE.id]}


@pytest.mark.parametrize(
    "facts",
    [
        {"netdev_parents": (("br0", ("s0",)),), "masters": (("s0", "br0"),)},
        {"netdev_parents": (("s0.7", ("s0",)),)},
        {"routed_netdevs": ("s0",)},
    ],
    ids=["bridge", "VLAN", "address and route"],
)
def test_a_sub_function_that_the_host_uses_is_kept_out_of_pools_and_so_is_its_pf(
    facts: dict[str, Any],
) -> None:
    host = Snapshot(devices=(ENS1, SUB), **facts)
    assert members(assigned(host, SFS, pool("pf"))) == {"sf": [], "pf": []}


def test_a_pf_with_an_address_and_a_route_but_no_default_route_is_a_device() -> None:
    host = Snapshot(devices=(ENS1,), addressed_netdevs=("ens1",), routed_netdevs=("ens1",))
    assert members(assigned(host, pool("pf"))) == {"pf": [ENS1.id]}


def test_an_address_without_a_route_does_not_count_as_use() -> None:
    host = Snapshot(devices=(UPLINK, USED), addressed_netdevs=("v0",))
    assert members(assigned(host, pool("vf"))) == {"vf": [USED.id]}


def test_any_netdev_of_a_function_with_several_ports_guards_it() -> None:
    ports = pf("0000:04:00.0", "p1", netdevs=(Netdev("p1"), Netdev("p2")))
    assert functions_in_use(node(ports, routes=("p2",))) == {
        "0000:04:00.0": "p2 carries the default route"
    }


def test_a_device_that_a_pod_holds_stays_in_its_pool_when_it_looks_used() -> None:
    pools = assigned(node(ENS1, ENS2, routes=("ens1",)), pool("nic"), held=held("nic", ENS1))
    assert members(pools) == {"nic": [ENS1.id, ENS2.id]}
    assert [(f.step, f.remaining) for f in pools.pools[0].funnel][-2:] == [
        ("not in use", 2),
        ("not taken", 2),
    ]

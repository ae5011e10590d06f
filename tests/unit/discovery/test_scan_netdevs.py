"""Network interfaces of functions, and what the host has built upon them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.discovery.scan import scan
from agent.host import devlink
from agent.model.device import Netdev
from agent.roots import Roots
from tests.support.hardware import CONNECTX6_INFINIBAND, Hardware, VfHardware
from tests.support.host_builder import HostBuilder

PF = "0000:3b:00.0"
VF0 = "0000:3b:01.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1", vfs=1)
    return host


def netdev(host: HostBuilder, function: str) -> Netdev:
    found = scan(host.roots).by_id[function].netdev
    assert found is not None
    return found


def test_a_pulled_cable_is_a_carrier_of_zero(host: HostBuilder) -> None:
    host.set_carrier("ens1", up=False)
    pf = netdev(host, PF)
    assert (pf.admin_up, pf.carrier, pf.operstate, pf.speed_mbps) == (True, False, "down", None)


def test_a_netdev_that_is_down_has_no_carrier(host: HostBuilder) -> None:
    host.set_admin("ens1", up=False)
    pf = netdev(host, PF)
    assert (pf.admin_up, pf.carrier, pf.operstate) == (False, None, "down")


def test_an_old_carrier_of_a_netdev_that_is_down_is_ignored(host: HostBuilder) -> None:
    host.set_admin("ens1", up=False)
    host.write(host.root / "sys/class/net/ens1/carrier", 1)
    assert netdev(host, PF).carrier is None


def test_a_vf_that_is_up_has_a_carrier(host: HostBuilder) -> None:
    host.set_admin("ens1v0", up=True)
    assert netdev(host, VF0).carrier is True
    host.set_carrier("ens1v0", up=False)
    assert netdev(host, VF0).carrier is False


def test_infiniband_and_unknown_link_types_are_shown_as_such(host: HostBuilder) -> None:
    host.pf("0000:af:00.0", "ib0", CONNECTX6_INFINIBAND, vfs=1)
    assert netdev(host, "0000:af:00.0").link_type == "infiniband"
    assert netdev(host, "0000:af:01.0").link_type == "infiniband"
    host.write(host.root / "sys/class/net/ib0/type", 772)
    assert netdev(host, "0000:af:00.0").link_type == "772"


@pytest.mark.parametrize("speed", [-1, 0, 4294967295, "unknown"])
def test_an_invalid_speed_is_none(host: HostBuilder, speed: int | str) -> None:
    host.write(host.root / "sys/class/net/ens1/speed", speed)
    assert netdev(host, PF).speed_mbps is None


def test_a_vf_in_a_pod_has_no_netdev_and_stays_in_its_pool(host: HostBuilder) -> None:
    host.remove_netdev("ens1v0")
    (host.folder(VF0) / "net").rmdir()
    assert scan(host.roots).by_id[VF0].netdevs == ()


def test_the_netdev_of_a_virtio_nic_is_one_level_down(host: HostBuilder) -> None:
    host.virtio_nic("0000:00:03.0", "eth0")
    found = scan(host.roots).by_id["0000:00:03.0"]
    assert (found.driver, found.pf_name) == ("virtio-pci", "eth0")
    assert [n.name for n in found.netdevs] == ["eth0"]


def test_a_virtio_vf_has_its_netdev_one_level_down_too(host: HostBuilder) -> None:
    virtio = Hardware(
        "1af4",
        "1041",
        "virtio-pci",
        total_vfs=4,
        vf=VfHardware("1041", "virtio-pci", netdevs=False),
    )
    host.pf("0000:06:00.0", None, virtio, vfs=1)
    vf = "0000:06:01.0"
    path = host.folder(vf) / "virtio7/net/enp6s0v0"
    host.write(path / "type", 1)
    assert [n.name for n in scan(host.roots).by_id[vf].netdevs] == ["enp6s0v0"]
    host.link(host.root / "sys/class/net/enp6s0v0", path)
    assert [n.name for n in scan(host.roots).by_id[vf].netdevs] == ["enp6s0v0"]


def test_a_function_with_two_ports_is_named_by_the_first_that_was_registered(
    host: HostBuilder,
) -> None:
    host.function("0000:04:00.0", Hardware("15b3", "1007", "mlx4_core"))
    host.netdev("zeta", "0000:04:00.0")
    host.netdev("alpha", "0000:04:00.0")
    found = scan(host.roots).by_id["0000:04:00.0"]
    assert [n.name for n in found.netdevs] == ["alpha", "zeta"]
    assert found.pf_name == "zeta"


def test_an_interface_on_top_of_a_pf_is_reported_with_its_master(host: HostBuilder) -> None:
    host.enslave("ens1", "bond0")
    host.stack("ens1", "ens1.100")
    host.stack("bond0", "bond0.7")
    snapshot = scan(host.roots)
    pf = snapshot.by_id[PF].netdev
    assert pf is not None
    assert (pf.master, pf.uppers) == ("bond0", ("bond0", "ens1.100"))
    assert snapshot.netdev_parents == (
        ("bond0", ("ens1",)),
        ("bond0.7", ("bond0",)),
        ("ens1.100", ("ens1",)),
    )


def test_the_class_folder_wins_over_a_copy_below_the_function(host: HostBuilder) -> None:
    link = host.root / "sys/class/net/ens1v0"
    link.unlink()
    host.write(link / "type", 1)
    host.write(link / "flags", "0x1003")
    host.write(link / "carrier", 1)
    assert netdev(host, VF0) == Netdev("ens1v0", link_type="ether", admin_up=True, carrier=True)


def test_a_netdev_outside_the_class_folder_is_read_where_it_is(host: HostBuilder) -> None:
    for name in ("ens1", "ens1v0"):
        (host.root / "sys/class/net" / name).unlink()
    assert netdev(host, PF).link_type == "ether"
    assert netdev(host, VF0).link_type == "ether"


def test_default_routes_come_from_procfs_without_netlink(host: HostBuilder) -> None:
    host.default_route("ens1")
    assert scan(host.roots).default_route_netdevs == ("ens1",)


def test_for_a_vf_that_is_part_of_a_bond_or_carries_a_vlan_the_scan_decides(
    host: HostBuilder,
) -> None:
    host.enslave("ens1v0", "bond1")
    host.stack("ens1v0", "ens1v0.7")
    snapshot = scan(host.roots)
    assert snapshot.masters == (("ens1v0", "bond1"),)
    assert snapshot.netdev_parents == (("bond1", ("ens1v0",)), ("ens1v0.7", ("ens1v0",)))


def test_an_address_with_a_route_is_reported_for_vfs_and_not_for_pfs(host: HostBuilder) -> None:
    lines = [f"{name}\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF" for name in ("ens1", "ens1v0")]
    host.write(host.root / "proc/net/route", "\n".join(["Iface", *lines]))
    snapshot = scan(host.roots)
    assert (snapshot.addressed_netdevs, snapshot.routed_netdevs) == (("ens1v0",), ("ens1v0",))


def test_this_machines_own_functions_are_read_with_and_without_netlink() -> None:
    needs = frozenset({devlink.DDP, devlink.ENABLE_RDMA})
    snapshot = scan(Roots(), netlink=True, needs=needs)
    on_the_bus = {path.name for path in Path("/sys/bus/pci/devices").glob("*")}
    passed_over = sum(count for _, count in snapshot.skipped_classes)
    assert {d.pci_address for d in snapshot.devices} <= on_the_bus
    functions = [d for d in snapshot.devices if d.id == d.pci_address]
    assert len(functions) + passed_over == len(on_the_bus)
    assert [d.id for d in scan(Roots()).devices] == [d.id for d in snapshot.devices]


def test_a_renamed_netdev_is_not_confused_with_the_one_that_has_its_former_name(
    host: HostBuilder,
) -> None:
    """The class says another interface has the name; the folder below the function is its own."""
    host.pf("0000:8a:00.0", "ens8")
    host.pf("0000:8b:00.0", "ens9")
    net = host.root / "sys/class/net"
    (net / "ens8").unlink()
    host.link(net / "ens8", (net / "ens9").resolve())
    ifindex = int((host.folder("0000:8a:00.0") / "net/ens8/ifindex").read_text())
    assert scan(host.roots).by_id["0000:8a:00.0"].netdevs[0].ifindex == ifindex

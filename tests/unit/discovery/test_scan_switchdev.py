"""PFs in switchdev mode: the uplink names the PF, representors never do."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.discovery.scan import scan
from agent.model.device import Device
from tests.support.hardware import CONNECTX6
from tests.support.host_builder import HostBuilder, Port

PF0, PF1 = "0000:03:00.0", "0000:03:00.1"
SWITCH = "0a1b2c"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    return HostBuilder(tmp_path)


def pf(host: HostBuilder, address: str, **ports: str) -> None:
    """A PF with VFs and the netdevs that its ``net`` folder lists, in the order of registration."""
    host.pf(address, None, CONNECTX6, vfs=2)
    for name, port in ports.items():
        host.netdev(name, address, port=Port(port, SWITCH) if port else None)


def device(host: HostBuilder, name: str) -> Device:
    return scan(host.roots).by_id[name]


def test_the_uplink_names_the_pf_and_its_vfs(host: HostBuilder) -> None:
    pf(host, PF1, a_first="pf1vf5", pf1a_0="pf1vf0", pf1a_1="pf1vf1", pf1a="p1")
    found = device(host, PF1)
    assert (found.pf_name, [n.name for n in found.netdevs]) == ("pf1a", ["pf1a"])
    assert device(host, host.vfs(PF1)[0]).pf_name == "pf1a"


@pytest.mark.parametrize("uplink", ["p0", "p0s1", "l1p0", "p12"])
def test_physical_ports_are_uplinks_in_every_spelling(host: HostBuilder, uplink: str) -> None:
    pf(host, PF0, aaa="pf0vf0", bbb="pf0sf88", ccc="pf0", ddd="c1pf0vf0", zzz=uplink)
    assert device(host, PF0).pf_name == "zzz"


@pytest.mark.parametrize("uplink", ["p0", "p0s1", "l1p0", "l1p0s1"])
def test_a_physical_port_is_the_uplink_though_another_netdev_came_before(
    host: HostBuilder, uplink: str
) -> None:
    pf(host, PF0, aaa="", zzz=uplink)
    assert device(host, PF0).pf_name == "zzz"


def test_without_an_uplink_a_netdev_that_is_not_a_representor_names_the_pf(
    host: HostBuilder,
) -> None:
    pf(host, PF0, aaa="pf0vf0", zzz="")
    assert device(host, PF0).pf_name == "zzz"


def test_a_pf_with_representors_only_has_no_name(host: HostBuilder) -> None:
    pf(host, PF0, aaa="pf0vf0")
    found = device(host, PF0)
    assert (found.pf_name, found.netdevs) == (None, ())


def test_bare_numbers_with_a_switch_id_are_representors_of_old_kernels(host: HostBuilder) -> None:
    pf(host, PF0, aaa="0", bbb="1", zzz="p0")
    assert [n.name for n in device(host, PF0).netdevs] == ["zzz"]


def test_a_port_name_without_switch_id_is_the_pf_in_legacy_mode(host: HostBuilder) -> None:
    pf(host, PF0, ens3f0="")
    host.write(host.root / "sys/class/net/ens3f0/phys_port_name", "p0")
    found = device(host, PF0)
    assert (found.pf_name, [n.name for n in found.netdevs]) == ("ens3f0", ["ens3f0"])


def test_representors_of_vfs_and_sfs_are_found(host: HostBuilder) -> None:
    pf(host, PF0, up="p0", rep0="pf0vf0", rep1="pf0vf1", sfrep="pf0sf88")
    sf = host.sf(PF0, 88, "up_s88")
    vf0, vf1 = host.vfs(PF0)
    found = scan(host.roots).by_id
    assert (found[vf0].representor, found[vf1].representor) == ("rep0", "rep1")
    assert (found[sf].representor, found[sf].pf_name) == ("sfrep", "up")


def test_representors_of_other_controllers_are_ignored(host: HostBuilder) -> None:
    pf(host, PF0, up="p0", theirs="c1pf0vf0")
    assert device(host, host.vfs(PF0)[0]).representor is None


def test_pfs_that_share_a_switch_have_different_representors(host: HostBuilder) -> None:
    pf(host, PF0, up0="p0", zero0="pf0vf0", one0="pf1vf0")
    pf(host, PF1, up1="p1")
    assert device(host, host.vfs(PF0)[0]).representor == "zero0"
    assert device(host, host.vfs(PF1)[0]).representor == "one0"


def test_a_pf_that_counts_ports_instead_of_functions_is_supported(host: HostBuilder) -> None:
    pf(host, PF0, pf1a="p1", pf1a_0="pf1vf0")
    assert device(host, host.vfs(PF0)[0]).representor == "pf1a_0"


def test_representors_that_are_below_no_function_are_found_by_their_switch(
    host: HostBuilder,
) -> None:
    pf(host, PF0, up0="p0")
    host.netdev("stray", port=Port("pf0vf1", SWITCH))
    host.netdev("foreign", port=Port("pf0vf0", "ffffff"))
    vf0, vf1 = host.vfs(PF0)
    found = scan(host.roots).by_id
    assert (found[vf0].representor, found[vf1].representor) == (None, "stray")


def bonded(host: HostBuilder, *switches: str) -> None:
    """A PF for each switch id, all uplinks in ``bond0``."""
    for number, switch in enumerate(switches):
        address, name = f"0000:03:00.{number}", f"ens{number}"
        host.pf(address, None, CONNECTX6, vfs=1)
        host.netdev(name, address, port=Port(f"p{number}", switch))
        host.enslave(name, "bond0")


def test_a_bond_of_two_pfs_of_one_switch_is_read_and_those_of_other_pfs_are_not(
    host: HostBuilder,
) -> None:
    bonded(host, SWITCH, SWITCH)
    assert scan(host.roots).bonds == (), "it is a bridge"
    (host.root / "sys/class/net/bond0/bonding").mkdir()
    snapshot = scan(host.roots)
    assert [(b.name, b.carrier) for b in snapshot.bonds] == [("bond0", True)]
    assert set(snapshot.lag_of) == {PF0, PF1}
    host.set_carrier("bond0", up=False)
    assert scan(host.roots).bonds[0].carrier is False


@pytest.mark.parametrize("switches", [(SWITCH,), (SWITCH, "ffff")])
def test_a_bond_of_one_pf_or_of_two_nics_is_not_a_vf_lag(
    host: HostBuilder, switches: tuple[str, ...]
) -> None:
    bonded(host, *switches)
    (host.root / "sys/class/net/bond0/bonding").mkdir()
    snapshot = scan(host.roots)
    assert (snapshot.bonds, dict(snapshot.lag_of)) == ((), {})

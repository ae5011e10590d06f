"""``pfNames`` finds a PF by each of its ports and by alternative names, and says why it cannot."""

from __future__ import annotations

import pytest

from agent.model.device import Device, Netdev
from agent.model.snapshot import Snapshot
from agent.pools.advice import advise
from agent.selectors import SELECTORS
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, one_pool, pool


def nfp(*altnames: str) -> tuple[Snapshot, tuple[Device, ...]]:
    """A PF with two ports, of which the second has these alternative names, and two VFs."""
    netdevs = (
        Netdev("nfp_p0", link_type="ether", phys_port_name="p0"),
        Netdev("nfp_p1", link_type="ether", phys_port_name="p1", altnames=altnames),
    )
    parent = pf("0000:05:00.0", "nfp_p0", num_vfs=2, netdevs=netdevs)
    vfs = tuple(vf(f"0000:05:08.{i}", parent, i) for i in range(2))
    return host(parent, *vfs), vfs


def found(snapshot: Snapshot, *names: str) -> list[str]:
    return [m.device.id for m in one_pool(snapshot, {"pfNames": list(names)}).members]


@pytest.mark.parametrize("name", ["nfp_p0", "nfp_p1", "NFP_P1", "nfp_*", "*1", "Agilio1"])
def test_each_port_and_each_alternative_name_finds_the_functions_of_the_pf(name: str) -> None:
    snapshot, vfs = nfp("agilio1")
    assert found(snapshot, name) == [v.id for v in vfs]
    assert found(snapshot, f"{name}#1") == [vfs[1].id]


def test_a_pattern_matches_netdevs_by_their_own_names_only() -> None:
    snapshot, vfs = nfp("agilio1")
    assert found(snapshot, "agilio*") == []
    assert found(snapshot, "agilio*", "nfp_p0#0") == [vfs[0].id]
    for name, matches in (("agilio*", False), ("agilio1", True), ("nfp*", True)):
        criterion = one_pool(snapshot, {"pfNames": [name]}).config.selectors[0].criteria[0]
        assert SELECTORS["pfNames"].matches(vfs[0], criterion.wanted, snapshot) is matches


def test_several_names_of_one_pf_select_each_function_once() -> None:
    snapshot, vfs = nfp("agilio1")
    assert found(snapshot, "nfp_p0#0", "nfp_p1#0-1", "agilio1") == [v.id for v in vfs]


def test_no_note_reports_a_second_port_or_an_alternative_name_as_absent() -> None:
    snapshot, _ = nfp("agilio1")
    for name in ("nfp_p1", "agilio1"):
        assert one_pool(snapshot, {"pfNames": [name]}).notes == ()


def test_for_a_name_that_no_netdev_has_the_ports_of_all_pfs_are_listed() -> None:
    snapshot, _ = nfp()
    pools = assigned(snapshot, pool("vf", {"pfNames": ["nfp_p2"]}))
    (why,) = advise(pools.pools[0], pools).why_empty
    assert "PFs here: nfp_p0, nfp_p1" in why


def in_a_pods_network(driver: str, pci_class: int = 0x020000) -> str:
    """Why a pool by name is empty where no netdev is seen."""
    parent = pf("0000:3b:00.0", None, num_vfs=1, driver=driver, pci_class=pci_class)
    snapshot = host(parent, vf("0000:3b:01.0", parent))
    pools = assigned(snapshot, pool("vf", {"pfNames": ["ens1f0"]}))
    (why,) = advise(pools.pools[0], pools).why_empty
    return why


def test_for_an_agent_outside_the_hosts_network_the_advice_says_so() -> None:
    why = in_a_pods_network("ice")
    assert "(hostNetwork: true), or select by rootDevices: 0000:3b:00.0" in why
    assert "write the name of one of these" not in why


@pytest.mark.parametrize(("driver", "pci_class"), [("vfio-pci", 0x020000), ("mlx5_core", 0x020700)])
def test_functions_that_never_have_a_netdev_give_no_hint_on_the_network(
    driver: str, pci_class: int
) -> None:
    assert "hostNetwork" not in in_a_pods_network(driver, pci_class)

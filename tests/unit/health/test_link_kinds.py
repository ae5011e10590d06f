"""The link of functions whose PF is down, is InfiniBand, is in a bond, or has several ports."""

from __future__ import annotations

import pytest

from agent.health.link import carriers, port_states, unproven_pfs
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.device import Device, InfinibandPort, Netdev
from agent.model.link import LinkFact, Links, VfLinkPolicy
from agent.model.snapshot import Snapshot
from tests.support.devices import host, pf, sf, vf
from tests.support.health import check_link
from tests.support.pools import pool_config

DOWN = Netdev("pf0", ifindex=5, link_type="ether", admin_up=False)
STOPPED = Health(
    Cause.PF_DOWN, "PF pf0 is administratively down, and the driver igb stops its VFs then"
)


def down_pf(driver: str, *own: Netdev) -> tuple[Snapshot, Device]:
    """A PF that is administratively down, and its VF with these netdevs."""
    parent = pf("0000:3b:00.0", "pf0", num_vfs=1, driver=driver, netdevs=(DOWN,))
    function = vf("0000:3b:02.0", parent, netdevs=own)
    return host(parent, function), function


@pytest.mark.parametrize("driver", ["i40e", "ice", "mlx5_core", "bnxt_en", None])
def test_a_pf_that_is_only_administratively_down_does_not_affect_its_vfs(driver: str) -> None:
    snapshot, function = down_pf(driver)
    assert check_link(function, snapshot, Links()) == HEALTHY
    assert [p.id for p in unproven_pfs((DOWN,), snapshot, Links())] == ["0000:3b:00.0"]


@pytest.mark.parametrize("driver", ["igb", "ixgbe", "ngbe"])
def test_a_driver_that_is_known_to_stop_its_vfs_makes_them_unhealthy(driver: str) -> None:
    snapshot, function = down_pf(driver, Netdev("v0", ifindex=9, admin_up=False))
    assert check_link(function, snapshot, Links()).cause is Cause.PF_DOWN
    assert not list(unproven_pfs((DOWN,), snapshot, Links()))


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (Netdev("v0", ifindex=9, admin_up=True, carrier=True), HEALTHY),
        (Netdev("v0", ifindex=9, admin_up=True, operstate="up"), HEALTHY),
        (Netdev("v0", ifindex=9, admin_up=True, carrier=False), STOPPED),
        (Netdev("v0", ifindex=9, admin_up=False, carrier=True), STOPPED),
        (Netdev("v0", ifindex=9, admin_up=True), STOPPED),
    ],
)
def test_the_carrier_of_a_vf_proves_its_link_while_the_pf_is_down(
    own: Netdev, verdict: Health
) -> None:
    snapshot, function = down_pf("igb", own)
    assert check_link(function, snapshot, Links()) == verdict


def test_the_own_carrier_that_proves_a_link_is_the_latest_and_is_watched() -> None:
    own = Netdev("v0", ifindex=9, admin_up=True, carrier=True)
    snapshot, function = down_pf("igb", own)
    assert carriers([function], snapshot) == (own, DOWN)
    lost = Links({9: LinkFact(9, "v0", admin_up=True, carrier=False)})
    assert check_link(function, snapshot, lost) == STOPPED


def test_the_own_carrier_does_not_hide_that_the_pf_has_no_carrier() -> None:
    dead = Netdev("pf0", ifindex=5, admin_up=True, carrier=False)
    parent = pf("0000:3b:00.0", "pf0", num_vfs=1, netdevs=(dead,), driver="igb")
    own = Netdev("v0", ifindex=9, admin_up=True, carrier=True)
    function = vf("0000:3b:02.0", parent, netdevs=(own,))
    assert check_link(function, host(parent, function), Links()).cause is Cause.NO_CARRIER


def test_a_pf_that_is_a_device_itself_causes_no_warning_while_it_is_down() -> None:
    spare = pf("0000:3b:00.0", "pf0", netdevs=(DOWN,))
    assert not list(unproven_pfs((DOWN,), host(spare), Links()))


def test_a_pf_whose_netdev_has_left_or_is_up_is_nothing_to_warn_of_beside_one_that_is_down() -> (
    None
):
    netdevs = (Netdev("up", 5, admin_up=True), Netdev("gone", 6), Netdev("down", 7, admin_up=False))
    pfs = [pf(f"0000:3b:00.{n}", e.name, num_vfs=1, netdevs=(e,)) for n, e in enumerate(netdevs)]
    vfs = [vf(f"0000:3b:02.{n}", parent) for n, parent in enumerate(pfs)]
    links = Links({6: LinkFact(6, "gone", gone=True)})
    assert list(unproven_pfs(netdevs, host(*pfs, *vfs), links)) == [pfs[2]]


def test_each_port_of_a_pf_has_a_link_has_none_or_is_unknown() -> None:
    netdevs = tuple(
        Netdev(f"p{n}", 5 + n, admin_up=up, carrier=carrier, phys_port_name=f"p{n}")
        for n, (up, carrier) in enumerate([(True, True), (True, False), (False, None)])
    )
    parent = pf("0000:3b:00.0", "p0", netdevs=netdevs)
    assert port_states(parent, Links()) == (True, False, None)


# InfiniBand


def infiniband(
    *ports: InfinibandPort, ipoib: tuple[Netdev, ...] | None = None
) -> tuple[Snapshot, Device, Device]:
    """An InfiniBand PF with a VF and an SF; its IPoIB netdev is down unless given."""
    netdevs = (Netdev("ibs1", 5, "infiniband", admin_up=False),) if ipoib is None else ipoib
    name = netdevs[0].name if netdevs else None
    parent = pf("0000:17:00.0", name, num_vfs=1, netdevs=netdevs, infiniband_ports=ports)
    function, sub = vf("0000:17:00.1", parent), sf(parent, 1)
    return host(parent, function, sub), function, sub


@pytest.mark.parametrize(
    ("state", "phys_state", "fault"),
    [
        ("ACTIVE", "LinkUp", None),
        ("ACTIVE", None, None),
        ("ACTIVE_DEFER", "LinkUp", None),
        ("DOWN", "Polling", "is DOWN (physical state Polling)"),
        ("DOWN", None, "is DOWN"),
        ("INIT", None, "is INIT: no subnet manager has set it up"),
        ("ARMED", None, "is ARMED: no subnet manager has set it up"),
    ],
)
def test_the_rdma_ports_state_is_the_link_of_infiniband_regardless_of_ipoib(
    state: str, phys_state: str | None, fault: str | None
) -> None:
    verdict = Health(Cause.NO_CARRIER, f"RDMA port mlx5_0/1 {fault}") if fault else HEALTHY
    for ipoib in (
        None,
        (),
        (Netdev("ibs1", 5, "infiniband", admin_up=True, carrier=state == "DOWN"),),
    ):
        port = InfinibandPort("mlx5_0", 1, state, phys_state)
        for function in (snapshot_and := infiniband(port, ipoib=ipoib))[1:]:
            assert check_link(function, snapshot_and[0], Links()) == verdict


def test_ipoib_is_asked_where_the_ports_state_cannot_be_read() -> None:
    dead = (Netdev("ibs1", 5, "infiniband", admin_up=True, carrier=False),)
    snapshot, function, _ = infiniband(InfinibandPort("mlx5_0", 1), ipoib=dead)
    assert check_link(function, snapshot, Links()).cause is Cause.NO_CARRIER


def test_an_infiniband_pf_whose_ipoib_is_down_causes_no_warning() -> None:
    snapshot, *_ = infiniband(InfinibandPort("mlx5_0", 1, "ACTIVE"))
    netdevs = carriers(snapshot.devices, snapshot)
    assert not list(unproven_pfs(netdevs, snapshot, Links()))


def test_an_infiniband_vf_that_no_cni_plugin_has_enabled_yet_is_healthy() -> None:
    snapshot, function, _ = infiniband(InfinibandPort("mlx5_0", 1, "ACTIVE"))
    fact = LinkFact(5, "ibs1", vf_policies={0: VfLinkPolicy.DISABLE})
    assert check_link(function, snapshot, Links({5: fact})) == HEALTHY


def test_an_infiniband_function_without_a_pf_here_is_judged_by_its_own_port() -> None:
    for state, cause in (("ACTIVE", Cause.NONE), ("DOWN", Cause.NO_CARRIER)):
        ports = (InfinibandPort("mlx5_3", 1, state),)
        guest = vf("0000:05:00.0", None, infiniband_ports=ports)
        spare = pf("0000:17:00.0", "ibs1", infiniband_ports=ports)
        for device in (guest, spare):
            assert check_link(device, host(device), Links()).cause is cause


def test_one_active_infiniband_port_of_two_is_enough_unless_pf_names_selects_one() -> None:
    ports = (InfinibandPort("mlx4_0", 1, "DOWN"), InfinibandPort("mlx4_0", 2, "ACTIVE"))
    netdevs = tuple(
        Netdev(f"ib{n}", 5 + n, "infiniband", admin_up=False, dev_port=n) for n in range(2)
    )
    snapshot, function, _ = infiniband(*ports, ipoib=netdevs)
    assert check_link(function, snapshot, Links()) == HEALTHY
    for name, cause in (("ib0", Cause.NO_CARRIER), ("ib1", Cause.NONE)):
        (selectors,) = pool_config("vf", {"pfNames": [name]}).selectors
        assert check_link(function, snapshot, Links(), selectors).cause is cause


@pytest.mark.parametrize(("carrier", "cause"), [(True, Cause.NONE), (False, Cause.NO_CARRIER)])
def test_for_a_pf_with_an_infiniband_and_an_ethernet_port_the_ethernet_port_counts_too(
    carrier: bool,  # noqa: FBT001 - a parameter
    cause: Cause,
) -> None:
    dead = InfinibandPort("mlx4_0", 1, "DOWN")
    ethernet = Netdev("ens1", 6, "ether", admin_up=True, carrier=carrier, dev_port=1)
    snapshot, function, _ = infiniband(dead, ipoib=(ethernet,))
    (selectors,) = pool_config("vf", {"pfNames": ["ens1"]}).selectors
    assert check_link(function, snapshot, Links(), selectors).cause is cause


# VF LAG

BOND = Netdev("bond0", ifindex=90, admin_up=True, carrier=True, operstate="up")


def lag(
    *switches: str | None, bond: Netdev = BOND, master: str | None = "bond0"
) -> tuple[Snapshot, list[Device]]:
    """A PF for each switch id, all in one bond, the last without cable; and a VF of each."""
    pfs, vfs = [], []
    for n, switch in enumerate(switches):
        uplink = Netdev(
            f"p{n}",
            ifindex=10 + n,
            admin_up=True,
            carrier=n < len(switches) - 1,
            phys_switch_id=switch,
            phys_port_name=f"p{n}",
            master=master,
        )
        pfs.append(pf(f"0000:08:00.{n}", f"p{n}", num_vfs=1, netdevs=(uplink,)))
        vfs.append(vf(f"0000:08:02.{n}", pfs[-1]))
    bonds = (bond,) if master else ()
    return Snapshot(devices=(*pfs, *vfs), bonds=bonds), vfs


def verdicts(snapshot: Snapshot, vfs: list[Device], links: Links | None = None) -> list[bool]:
    return [check_link(v, snapshot, links or Links()).healthy for v in vfs]


def test_the_bond_of_a_vf_lag_decides_for_the_vfs_of_both_pfs() -> None:
    snapshot, vfs = lag("0c42a1", "0c42a1")
    assert verdicts(snapshot, vfs) == [True, True]
    dead = Links({90: LinkFact(90, "bond0", admin_up=True, carrier=False)})
    assert verdicts(snapshot, vfs, dead) == [False, False]
    assert check_link(vfs[0], snapshot, dead).detail == "bond bond0 has no carrier"
    assert BOND in carriers(vfs, snapshot)


@pytest.mark.parametrize(
    ("switches", "master"),
    [
        (("aa", "bb"), "bond0"),
        ((None, None), "bond0"),
        (("aa", "aa"), None),
    ],
)
def test_without_one_eswitch_and_one_bond_each_pf_decides_for_its_own_vfs(
    switches: tuple[str | None, ...], master: str | None
) -> None:
    snapshot, vfs = lag(*switches, master=master)
    assert verdicts(snapshot, vfs) == [True, False]


def test_a_bond_of_a_single_pf_is_not_a_vf_lag() -> None:
    snapshot, vfs = lag("aa")
    assert verdicts(snapshot, vfs) == [False]


def test_a_pf_that_left_its_bond_or_a_bond_that_is_set_down_no_longer_decides() -> None:
    snapshot, vfs = lag("aa", "aa")
    left = Links({11: LinkFact(11, "p1", admin_up=True, carrier=False)})
    assert verdicts(snapshot, vfs, left) == [True, False]
    still_in = Links({11: LinkFact(11, "p1", admin_up=True, carrier=False, master=90)})
    assert verdicts(snapshot, vfs, still_in) == [True, True]
    elsewhere = Links({11: LinkFact(11, "p1", admin_up=True, carrier=False, master=91)})
    assert verdicts(snapshot, vfs, elsewhere) == [True, False]
    bond_down = Links({90: LinkFact(90, "bond0", admin_up=False)})
    assert verdicts(snapshot, vfs, bond_down) == [True, False]


# Several ports of one function


def ports(
    *carriers_of: bool | None,
    port_names: bool = True,
    selector: str | None = None,
    **selectors: list[str],
) -> Health:
    """The verdict on VF 0 of a PF with these ports; None = the port is administratively down."""
    netdevs = tuple(
        Netdev(
            f"nfp_p{n}",
            ifindex=5 + n,
            link_type="ether",
            admin_up=carrier is not None,
            carrier=carrier,
            phys_port_name=f"p{n}" if port_names else None,
        )
        for n, carrier in enumerate(carriers_of)
    )
    parent = pf("0000:05:00.0", "nfp_p0", num_vfs=1, netdevs=netdevs)
    function = vf("0000:05:08.0", parent)
    chosen: dict[str, object] = {"pfNames": [selector]} if selector else {**selectors}
    objects = pool_config("vf", chosen).selectors if chosen else (None,)
    return check_link(function, host(parent, function), Links(), objects[0])


@pytest.mark.parametrize("port_names", [True, False])
def test_any_port_with_carrier_is_enough(port_names: bool) -> None:  # noqa: FBT001
    assert ports(False, True, port_names=port_names) == HEALTHY
    assert ports(True, False, port_names=port_names) == HEALTHY
    assert ports(False, False, port_names=port_names).detail == "PF nfp_p0 has no carrier"


def test_of_several_ports_those_that_the_pool_names_count() -> None:
    assert ports(False, True, selector="nfp_p1") == HEALTHY
    assert ports(True, False, selector="nfp_p1").detail == "PF nfp_p1 has no carrier"
    assert ports(True, False, selector="nfp_p*") == HEALTHY
    assert ports(True, False, selector="nfp_p1#5") == HEALTHY, "it names the port for others"


def test_every_port_counts_for_a_pool_that_names_none() -> None:
    assert ports(False, True, vendors=["19ee"]) == HEALTHY
    assert ports(False, False, vendors=["19ee"]).detail == "PF nfp_p0 has no carrier"


def test_a_second_port_that_is_not_used_hides_no_pulled_cable() -> None:
    assert ports(False, None).detail == "PF nfp_p0 has no carrier"
    assert ports(None, None) == HEALTHY


def test_a_netdev_without_a_port_name_does_not_count_as_a_port_beside_those_with_one() -> None:
    uplink = Netdev("p0", admin_up=True, carrier=False, phys_port_name="p0")
    other = Netdev("aaa", admin_up=True, carrier=True)
    parent = pf("0000:05:00.0", "p0", num_vfs=1, netdevs=(other, uplink))
    function = vf("0000:05:08.0", parent)
    assert check_link(function, host(parent, function), Links()).cause is Cause.NO_CARRIER


# Which interface a word of netlink is about


def test_two_pfs_that_swap_names_keep_their_own_links_if_numbers_are_the_kernels() -> None:
    pfs = [
        pf(
            f"0000:3b:00.{n}",
            f"ens{n}",
            num_vfs=1,
            netdevs=(Netdev(f"ens{n}", ifindex=5 + n, admin_up=True, carrier=n == 0),),
        )
        for n in range(2)
    ]
    vfs = [vf(f"0000:3b:02.{n}", parent) for n, parent in enumerate(pfs)]
    facts = {5 + n: LinkFact(5 + n, f"ens{1 - n}", admin_up=True, carrier=n == 0) for n in range(2)}
    snapshot = host(*pfs, *vfs)
    assert verdicts(snapshot, vfs, Links(facts, by_number=True)) == [True, False]
    assert verdicts(snapshot, vfs, Links(facts)) == [False, True], "a laid-out tree goes by names"


def test_a_number_that_netlink_has_not_reported_is_not_replaced_by_a_name() -> None:
    parent = pf("0000:3b:00.0", "ens1", netdevs=(Netdev("ens1", 5, admin_up=True, carrier=True),))
    facts = {6: LinkFact(6, "ens1", admin_up=True, carrier=False)}
    assert check_link(parent, host(parent), Links(facts, by_number=True)) == HEALTHY

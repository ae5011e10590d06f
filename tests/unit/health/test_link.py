from __future__ import annotations

import pytest

from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.device import Device, Netdev
from agent.model.link import LinkFact, Links, VfLinkPolicy
from agent.model.snapshot import Snapshot
from tests.support.devices import host, pf, sf, vf
from tests.support.health import check_link

UPLINK = Netdev("pf0", ifindex=5, link_type="ether", admin_up=True, carrier=True, operstate="up")
DEAD = Health(Cause.NO_CARRIER, "PF pf0 has no carrier")
DISABLED = Health(Cause.LINK_DISABLED, "its link state is set to disable on the PF")
AUTO, ENABLE, DISABLE = VfLinkPolicy


def netdev(
    *,
    admin_up: bool | None = True,
    carrier: bool | None = None,
    operstate: str | None = None,
    name: str = "pf0",
) -> Netdev:
    return Netdev(name, ifindex=5, admin_up=admin_up, carrier=carrier, operstate=operstate)


def node(uplink: Netdev | None) -> tuple[Snapshot, Device, Device]:
    """A host of one PF, with a VF and an SF of it."""
    netdevs = (uplink,) if uplink else ()
    parent = pf("0000:3b:00.0", uplink.name if uplink else None, num_vfs=4, netdevs=netdevs)
    # A VF's own netdev is down while it is idle: it must not matter.
    own = (Netdev("pf0v2", ifindex=9, admin_up=False, carrier=False, operstate="down"),)
    function, sub = vf("0000:3b:02.2", parent, 2, netdevs=own), sf(parent, 7)
    return host(parent, function, sub), function, sub


State = tuple[bool, bool, str]
UP: State = (True, True, "up")
NO_CARRIER: State = (True, False, "down")
ADMIN_DOWN: State = (False, False, "down")


def told(
    state: State,
    name: str = "pf0",
    *,
    policies: dict[int, VfLinkPolicy] | None = None,
    gone: bool = False,
) -> Links:
    """What netlink said last of interface 5."""
    admin_up, carrier, operstate = state
    fact = LinkFact(
        5,
        name,
        admin_up=admin_up,
        carrier=carrier,
        operstate=operstate,
        gone=gone,
        vf_policies=policies,
    )
    return Links({5: fact})


@pytest.mark.parametrize(
    ("uplink", "verdict"),
    [
        (netdev(carrier=True, operstate="up"), HEALTHY),
        (netdev(carrier=True, operstate="unknown"), HEALTHY),
        (netdev(carrier=False, operstate="down"), DEAD),
        (netdev(carrier=False, operstate="up"), DEAD),
        (netdev(operstate="up"), HEALTHY),
        (netdev(operstate="down"), DEAD),
        (netdev(operstate="lowerlayerdown"), DEAD),
        (netdev(operstate="notpresent"), DEAD),
        (netdev(operstate="dormant"), HEALTHY),
        (netdev(operstate="unknown"), HEALTHY),
        (netdev(), HEALTHY),
        (netdev(admin_up=False), HEALTHY),
        (netdev(admin_up=False, operstate="down"), HEALTHY),
        (netdev(admin_up=False, carrier=False, operstate="down"), HEALTHY),
        (netdev(admin_up=None), HEALTHY),
        (netdev(admin_up=None, operstate="down"), DEAD),
        (None, HEALTHY),
    ],
)
def test_the_scanned_link_of_the_pf_decides_for_vfs_and_sfs(
    uplink: Netdev | None, verdict: Health
) -> None:
    snapshot, function, sub = node(uplink)
    assert check_link(function, snapshot, Links()) == verdict
    assert check_link(sub, snapshot, Links()) == verdict


@pytest.mark.parametrize(
    ("policy", "state", "verdict"),
    [
        (None, UP, HEALTHY),
        (None, NO_CARRIER, DEAD),
        (None, ADMIN_DOWN, HEALTHY),
        (AUTO, UP, HEALTHY),
        (AUTO, NO_CARRIER, DEAD),
        (AUTO, ADMIN_DOWN, HEALTHY),
        (ENABLE, UP, HEALTHY),
        (ENABLE, NO_CARRIER, HEALTHY),
        (ENABLE, ADMIN_DOWN, HEALTHY),
        (DISABLE, UP, DISABLED),
        (DISABLE, NO_CARRIER, DISABLED),
        (DISABLE, ADMIN_DOWN, DISABLED),
    ],
)
def test_a_vfs_link_policy_comes_before_the_pfs_link(
    policy: VfLinkPolicy | None, state: State, verdict: Health
) -> None:
    snapshot, function, _ = node(UPLINK)
    policies = None if policy is None else {2: policy}
    assert check_link(function, snapshot, told(state, policies=policies)) == verdict


def test_the_policy_of_another_vf_does_not_matter() -> None:
    snapshot, function, _ = node(UPLINK)
    links = told(UP, policies={1: DISABLE, 3: DISABLE})
    assert check_link(function, snapshot, links) == HEALTHY


def test_a_sub_function_with_any_number_has_no_link_policy() -> None:
    parent = pf("0000:3b:00.0", "pf0", netdevs=(UPLINK,))
    sub = sf(parent, 2)
    links = told(NO_CARRIER, policies={2: ENABLE})
    assert check_link(sub, host(parent, sub), links) == DEAD


def test_the_link_policy_counts_after_the_uplinks_netdev_left_this_namespace() -> None:
    snapshot, function, _ = node(UPLINK)
    links = told(UP, policies={2: DISABLE}, gone=True)
    assert check_link(function, snapshot, links) == DISABLED


@pytest.mark.parametrize("scanned", [True, False])
def test_the_latest_netlink_message_overrides_the_scan(scanned: bool) -> None:  # noqa: FBT001
    snapshot, function, sub = node(netdev(carrier=scanned, operstate="up" if scanned else "down"))
    links = told(NO_CARRIER if scanned else UP)
    verdict = DEAD if scanned else HEALTHY
    assert check_link(function, snapshot, links) == verdict
    assert check_link(sub, snapshot, links) == verdict


def test_a_pf_whose_netdev_moved_to_another_namespace_causes_no_fault() -> None:
    snapshot, function, sub = node(netdev(carrier=False))
    links = told(NO_CARRIER, gone=True)
    assert check_link(function, snapshot, links) == HEALTHY
    assert check_link(sub, snapshot, links) == HEALTHY


def test_a_renamed_uplink_is_recognised_by_its_index_and_reported_by_its_new_name() -> None:
    snapshot, function, _ = node(UPLINK)
    verdict = check_link(function, snapshot, told(NO_CARRIER, "eno9"))
    assert verdict == Health(Cause.NO_CARRIER, "PF eno9 has no carrier")


def test_an_uplink_without_a_scanned_index_is_identified_by_name() -> None:
    snapshot, function, _ = node(Netdev("pf0", admin_up=True, carrier=True))
    assert check_link(function, snapshot, told(NO_CARRIER)) == DEAD
    assert check_link(function, snapshot, told(NO_CARRIER, "pf1")) == HEALTHY


def test_the_uplink_counts_and_not_another_netdev_of_the_pf() -> None:
    ports = (Netdev("aaa", ifindex=4, admin_up=True, carrier=False), UPLINK)
    parent = pf("0000:3b:00.0", "pf0", num_vfs=1, netdevs=ports)
    function = vf("0000:3b:02.0", parent, 0)
    assert check_link(function, host(parent, function), Links()) == HEALTHY


OWN_DEAD = Health(Cause.NO_CARRIER, "ens5 has no carrier")


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (netdev(name="ens5", carrier=True), HEALTHY),
        (netdev(name="ens5", carrier=False), OWN_DEAD),
        (netdev(name="ens5", operstate="down"), OWN_DEAD),
        (netdev(name="ens5", operstate="unknown"), HEALTHY),
        (netdev(name="ens5", admin_up=False, carrier=False), HEALTHY),
        (netdev(name="ens5", admin_up=None, carrier=False), HEALTHY),
        (None, HEALTHY),
    ],
)
def test_a_pf_or_a_vf_without_its_pf_follows_its_own_link_while_it_is_up(
    own: Netdev | None, verdict: Health
) -> None:
    netdevs = (own,) if own else ()
    spare = pf("0000:3b:00.1", "ens5", netdevs=netdevs)
    guest = vf("0000:05:00.0", None, netdevs=netdevs)
    stray = vf("0000:05:00.1", pf("0000:99:00.0", "away"), netdevs=netdevs)
    for device in (spare, guest, stray):
        assert check_link(device, host(device), Links()) == verdict


def test_a_function_without_a_pf_here_follows_netlink_too() -> None:
    guest = vf("0000:05:00.0", None, netdevs=(netdev(name="ens5", carrier=True),))
    assert check_link(guest, host(guest), told(NO_CARRIER, "ens5")) == OWN_DEAD
    assert check_link(guest, host(guest), told(ADMIN_DOWN, "ens5")) == HEALTHY
    assert check_link(guest, host(guest), told(NO_CARRIER, "ens5", gone=True)) == HEALTHY


def test_a_pf_bound_to_vfio_has_no_netdev_and_its_vfs_are_healthy() -> None:
    parent = pf("0000:3b:00.0", None, num_vfs=1, driver="vfio-pci")
    function = vf("0000:3b:02.0", parent, 0)
    assert check_link(function, host(parent, function), Links()) == HEALTHY

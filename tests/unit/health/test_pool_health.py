from __future__ import annotations

from agent.health.pool_health import Change, PoolHealth, assess_pool, changes, grouped
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.answers import DeviceListing, ListedDevice
from agent.model.device import Device, Netdev
from agent.model.link import LinkFact, Links
from agent.model.snapshot import Snapshot
from agent.pools.pool import Pools
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2, netdevs=(Netdev("pf0", ifindex=5, admin_up=True),))
VFS: tuple[Device, ...] = tuple(
    vf(f"0000:3b:02.{i}", PF0, i, numa_node=(0, None)[i]) for i in range(2)
)
A, B = (v.id for v in VFS)
NODE = host(PF0, *VFS)
CABLE_OUT = Links({5: LinkFact(5, "pf0", admin_up=True, carrier=False)})
CABLE_IN = Links({5: LinkFact(5, "pf0", admin_up=True, carrier=True)})
DEAD = Health(Cause.NO_CARRIER, "PF pf0 has no carrier")
UNWRITTEN = Health(Cause.NODE, "its CDI spec cannot be written")


def pools_of(snapshot: Snapshot = NODE, **keys: object) -> Pools:
    return assigned(snapshot, pool("vf", **keys))


def seen(
    before: PoolHealth | None = None,
    *,
    pools: Pools | None = None,
    links: Links = CABLE_IN,
    now: float = 0.0,
    unwritten: dict[str, Health] | None = None,
) -> PoolHealth:
    pools = pools or pools_of()
    return assess_pool(before, pools.pools[0], pools, links, now, unwritten or {})


def test_a_listing_is_the_full_list_in_the_pools_order_with_known_numa_nodes() -> None:
    assert seen().offer() == DeviceListing(
        "intel.com/vf", (ListedDevice(A, healthy=True, numa_node=0), ListedDevice(B, healthy=True))
    )


def test_no_topology_is_offered_where_the_pool_excludes_it() -> None:
    offer = seen(pools=pools_of(excludeTopology=True)).offer()
    assert [d.numa_node for d in offer.devices] == [None, None]


def test_a_pf_without_link_makes_all_of_its_functions_unhealthy_in_one_listing() -> None:
    pool_health = seen(seen(), links=CABLE_OUT)
    assert [d.healthy for d in pool_health.offer().devices] == [False, False]


def test_a_recovery_waits_for_the_hold_time_of_the_pool() -> None:
    pools = pools_of(health={"recoveryHoldSeconds": 5})
    down = seen(seen(pools=pools), pools=pools, links=CABLE_OUT, now=1.0)
    healing = seen(down, pools=pools, links=CABLE_IN, now=2.0)
    assert (healing.next_due, healing.offer()) == (7.0, down.offer())
    healed = seen(healing, pools=pools, links=CABLE_IN, now=7.0)
    assert (healed.next_due, healed.offer()) == (None, seen().offer())


def test_a_device_whose_file_could_not_be_written_is_unhealthy() -> None:
    pool_health = seen(unwritten={B: UNWRITTEN})
    assert [d.healthy for d in pool_health.offer().devices] == [True, False]
    assert pool_health.state.reported[B] == UNWRITTEN


def test_a_device_that_disappeared_while_a_pod_holds_it_stays_listed_as_unhealthy() -> None:
    pools = assigned(host(PF0, VFS[0]), pool("vf"), held=held("vf", VFS[1]))
    offer = seen(seen(), pools=pools).offer()
    assert [(d.id, d.healthy) for d in offer.devices] == [(A, True), (B, False)]


def test_changes_are_reported_device_by_device() -> None:
    before = seen(pools=pools_of(host(PF0, VFS[0])))
    after = seen(before, links=CABLE_OUT)
    assert changes(before, after) == (Change(A, HEALTHY, DEAD), Change(B, None, DEAD))
    assert changes(None, before) == (Change(A, None, HEALTHY),)
    assert changes(after, before) == (Change(A, DEAD, HEALTHY), Change(B, DEAD, None))
    assert changes(after, None) == (Change(A, DEAD, None), Change(B, DEAD, None))
    assert changes(after, after) == ()
    assert changes(None, None) == ()


def test_changes_of_the_same_kind_and_cause_are_grouped_in_order() -> None:
    found = (
        Change("a", HEALTHY, DEAD),
        Change("b", HEALTHY, UNWRITTEN),
        Change("c", HEALTHY, DEAD),
        Change("d", None, HEALTHY),
        Change("e", None, DEAD),
        Change("f", DEAD, HEALTHY),
        Change("g", HEALTHY, None),
        Change("h", DEAD, None),
    )
    assert list(grouped(found).items()) == [
        (("unhealthy", DEAD), ("a", "c")),
        (("unhealthy", UNWRITTEN), ("b",)),
        (("added", HEALTHY), ("d",)),
        (("added", DEAD), ("e",)),
        (("healthy", HEALTHY), ("f",)),
        (("removed", HEALTHY), ("g",)),
        (("removed", DEAD), ("h",)),
    ]


def test_a_link_event_of_another_pool_does_not_change_the_health_of_this_pool() -> None:
    pools = pools_of()
    before = seen(pools=pools)
    other = LinkFact(7, "pf7", admin_up=True, carrier=False)
    after = seen(before, pools=pools, links=Links({**CABLE_IN.by_ifindex, 7: other}), now=9.0)
    assert after is before
    assert changes(before, after) == ()


def test_the_health_of_a_pool_is_assessed_again_when_any_of_its_inputs_changes() -> None:
    pools = pools_of(health={"recoveryHoldSeconds": 5})
    held_now = assigned(NODE, pool("vf"), held=held("vf", A))
    before = seen(pools=pools)
    assert seen(before, pools=pools, links=CABLE_OUT) is not before
    assert seen(before, pools=pools, unwritten={A: UNWRITTEN}) is not before
    assert seen(before, pools=pools_of(host(PF0, VFS[0]))) is not before
    assert seen(before, pools=held_now) is not before


def test_the_health_of_a_pool_with_a_pending_recovery_is_assessed_again() -> None:
    pools = pools_of(health={"recoveryHoldSeconds": 5})
    down = seen(seen(pools=pools), pools=pools, links=CABLE_OUT)
    healing = seen(down, pools=pools, now=1.0)
    healed = seen(healing, pools=pools, now=6.0)
    assert [d.healthy for d in healing.offer().devices] == [False, False]
    assert [d.healthy for d in healed.offer().devices] == [True, True]


def test_without_the_link_check_no_cable_matters() -> None:
    pools = pools_of(health={"link": False})
    before = seen(pools=pools)
    assert seen(before, pools=pools, links=CABLE_OUT) is before

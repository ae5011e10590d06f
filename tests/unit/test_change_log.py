from __future__ import annotations

import attrs
import pytest

from agent import logs
from agent.change_log import (
    funnel_text,
    health_events,
    join_ids,
    log_pool,
    log_removed,
    why_empty,
)
from agent.health.pool_health import Change
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Pools
from tests.support.devices import host, pf, vf
from tests.support.log_lines import LogLines
from tests.support.pools import assigned, one_pool, pool

DEAD = Health(Cause.NO_CARRIER, "PF pf0 has no carrier")
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
VFS = tuple(vf(f"0000:3b:02.{i}", PF0, i) for i in range(2))
NODE = host(PF0, *VFS)


def log_health(*changes: Change) -> None:
    for event in health_events("intel.com/vf", changes):
        logs.emit(event)


def tell_pools(before: Pools, after: Pools) -> None:
    for one in after.pools:
        log_pool(one, before, why_empty(one, before, after))
    log_removed(before, after)


@pytest.mark.parametrize(
    ("change", "event", "fields"),
    [
        (Change("a", None, HEALTHY), "device.added", {}),
        (Change("a", None, DEAD), "device.added", {"cause": "no carrier", "detail": DEAD.detail}),
        (
            Change("a", HEALTHY, DEAD),
            "device.unhealthy",
            {"cause": "no carrier", "detail": DEAD.detail},
        ),
        (Change("a", DEAD, HEALTHY), "device.healthy", {}),
        (Change("a", HEALTHY, None), "device.removed", {}),
        (Change("a", DEAD, None), "device.removed", {"cause": "no carrier", "detail": DEAD.detail}),
    ],
)
def test_each_kind_of_change_is_an_event_with_its_cause(
    log_lines: LogLines, change: Change, event: str, fields: dict[str, str]
) -> None:
    log_health(change)
    assert log_lines.events() == [event]
    assert log_lines.fields(event) == [
        {"resource": "intel.com/vf", "count": 1, **fields, "devices": "a"}
    ]


def test_devices_that_share_a_change_and_its_cause_share_a_line(log_lines: LogLines) -> None:
    log_health(*(Change(str(n), HEALTHY, DEAD) for n in range(256)))
    (line,) = log_lines.fields("device.unhealthy")
    assert line["count"] == 256
    assert line["devices"].endswith(",62,63,... 192 more")


def test_few_devices_are_all_named() -> None:
    assert join_ids(()) == ""
    assert join_ids(tuple("abc")) == "a,b,c"


def test_a_new_pool_is_logged_with_its_funnel_the_reason_why_it_is_empty_and_its_notes(
    log_lines: LogLines,
) -> None:
    selectors = {"pfNames": ["pf0", "pf1"], "drivers": ["vfio-pci"]}
    idle = pf("0000:5e:00.0", "pf1")
    tell_pools(Pools(), assigned(host(*NODE.devices, idle), pool("vf", selectors)))
    assert log_lines.events() == ["pool.assigned", "pool.empty", "pool.note"]
    assert log_lines.fields("pool.assigned") == [
        {
            "resource": "intel.com/vf",
            "devices": 0,
            "funnel": "kind netDevice: 4 > without VFs: 3 > pfNames pf0, pf1: 2"
            " > drivers vfio-pci: 0 > not in use: 0 > not taken: 0",
        }
    ]
    (empty,) = log_lines.fields("pool.empty")
    assert "driver iavf (2)" in empty["why"]
    (note,) = log_lines.fields("pool.note")
    assert note["resource"] == "intel.com/vf"
    assert "pf1 has no VFs" in note["note"]


ALTERNATIVES = {"drivers": ["iavf", "igb_uio", "pci-pf-stub"], "pfNames": ["pf0", "pf9"]}


def test_absent_alternatives_are_reported_once_and_not_as_faults(log_lines: LogLines) -> None:
    before = assigned(NODE, pool("vf", ALTERNATIVES))
    tell_pools(Pools(), before)
    assert log_lines.events() == ["pool.assigned", "pool.alternatives", "pool.alternatives"]
    assert [f["absent"] for f in log_lines.fields("pool.alternatives")] == [
        "pfNames: no netDevice on this host matches pf9; other values of the list do",
        (
            "drivers: no netDevice on this host matches igb_uio, pci-pf-stub; "
            "other values of the list do"
        ),
    ]
    assert len(before.pools[0].notes) == 3
    more = host(*NODE.devices, vf("0000:3b:02.7", PF0, 7))
    tell_pools(before, assigned(more, pool("vf", ALTERNATIVES)))
    assert log_lines.events()[3:] == ["pool.assigned"]


def test_a_selector_object_for_another_kind_of_node_is_not_a_fault(log_lines: LogLines) -> None:
    objects = ({"vendors": ["15b3"], "isRdma": True}, {"vendors": ["8086"]})
    tell_pools(Pools(), assigned(NODE, pool("vf", *objects)))
    assert [f["absent"] for f in log_lines.fields("pool.alternatives")] == [
        "vendors: no netDevice on this host matches 15b3; another selector object of the pool does"
    ]
    assert log_lines.fields("pool.note") == []


def test_an_object_that_selects_nothing_although_its_values_exist_is_a_fault(
    log_lines: LogLines,
) -> None:
    objects = ({"vendors": ["8086"], "isRdma": True}, {"vendors": ["8086"]})
    tell_pools(Pools(), assigned(NODE, pool("vf", *objects)))
    assert log_lines.fields("pool.alternatives") == []
    (note,) = log_lines.fields("pool.note")
    assert str(note["note"]).startswith("isRdma: ")


def test_an_absent_value_without_an_alternative_is_a_fault(log_lines: LogLines) -> None:
    tell_pools(Pools(), assigned(NODE, pool("vf", {"pfNames": ["pf9"]}), pool("all")))
    assert "pool.alternatives" not in log_lines.events()
    assert "no PF on this host is named pf9" in str(log_lines.fields("pool.empty")[0]["why"])


def test_the_funnel_of_several_objects_names_the_object_of_each_step() -> None:
    chosen = one_pool(NODE, {"pfNames": ["pf0#0"]}, {"drivers": ["iavf"]})
    assert funnel_text(chosen) == (
        "kind netDevice: 3 > without VFs: 2 > [1] pfNames pf0#0: 1 > [1] not in use: 1"
        " > [1] not taken: 1 > [2] drivers iavf: 2 > [2] not in use: 2 > [2] not taken: 2"
    )


def test_a_pool_that_did_not_change_is_not_logged_again(log_lines: LogLines) -> None:
    tell_pools(assigned(NODE, pool("vf")), assigned(NODE, pool("vf")))
    assert log_lines.events() == []


def test_only_the_pool_whose_funnel_changed_is_logged(log_lines: LogLines) -> None:
    pools = (pool("a", {"pfNames": ["pf0#0"]}), pool("fec", deviceType="accelerator"))
    tell_pools(assigned(NODE, *pools), assigned(host(PF0, VFS[1]), *pools))
    assert [f["resource"] for f in log_lines.fields("pool.assigned")] == ["intel.com/a"]


def test_a_removed_pool_is_logged(log_lines: LogLines) -> None:
    tell_pools(assigned(NODE, pool("a"), pool("b")), assigned(NODE, pool("a")))
    assert log_lines.fields("pool.removed") == [{"resource": "intel.com/b"}]


def test_an_overlap_is_logged_once_with_its_count(log_lines: LogLines) -> None:
    alone = assigned(NODE, pool("a"))
    both = assigned(NODE, pool("a"), pool("b"))
    tell_pools(alone, both)
    tell_pools(both, both)
    assert log_lines.fields("pool.overlap") == [
        {
            "winner": "intel.com/a",
            "loser": "intel.com/b",
            "count": 2,
            "devices": ",".join(v.id for v in VFS),
        }
    ]


def test_a_guarded_function_is_logged_once_and_not_if_a_pool_has_it(log_lines: LogLines) -> None:
    uplink = pf("0000:3b:00.1", "pf1")
    node = Snapshot(devices=(uplink,), default_route_netdevs=("pf1",))
    guarded = assigned(node, pool("nic"))
    tell_pools(Pools(), guarded)
    tell_pools(guarded, attrs.evolve(guarded))
    tell_pools(Pools(), assigned(node, pool("nic", allowInUse=True)))
    assert log_lines.fields("device.in_use") == [
        {"device": uplink.id, "how": "pf1 carries the default route"}
    ]


def test_a_host_whose_nics_have_no_netdev_in_this_namespace_is_logged_once(
    log_lines: LogLines,
) -> None:
    bare = pf("0000:3b:00.0", None, num_vfs=1, driver="ice")
    after = assigned(host(bare, vf("0000:3b:01.0", bare)), pool("vf"))
    tell_pools(Pools(), after)
    tell_pools(after, after)
    assert log_lines.fields("host.no_network") == [{"pfs": "0000:3b:00.0"}]


def test_functions_that_look_broken_are_logged_once_if_no_pod_holds_them(
    log_lines: LogLines,
) -> None:
    parent = pf("0000:3b:00.0", "pf0", num_vfs=2)
    orphans = [vf(f"0000:3b:02.{i}", parent, i) for i in range(2)]
    unknown = assigned(host(parent, *orphans), pool("vf"))
    known = attrs.evolve(unknown, held=AllocatedDevices(complete=True))
    tell_pools(Pools(), unknown)
    tell_pools(unknown, known)
    tell_pools(known, attrs.evolve(known))
    assert log_lines.fields("device.suspect") == [
        {
            "resource": "intel.com/vf",
            "count": 2,
            "driver": "iavf",
            "devices": ",".join(o.id for o in orphans),
        }
    ]

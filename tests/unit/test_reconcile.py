from __future__ import annotations

import asyncio
from collections.abc import Mapping
from unittest.mock import patch

import attrs
import pytest

from agent import blocking
from agent.bus import Bus
from agent.config.watcher import ConfigChanged
from agent.events.devices import DevicesHealthy, DevicesUnhealthy
from agent.health.verdict import Cause, Health
from agent.model.answers import DeviceListing
from agent.model.events import (
    DevicesAllocated,
    DevicesResting,
    DevicesReturned,
    HostChanged,
    LinksChanged,
    SnapshotTaken,
)
from agent.model.link import LinkFact, Links
from agent.model.plugin_events import ResourceLocksChanged
from agent.model.snapshot import Snapshot
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import CONFIRM_WITHIN_S, REST_S, KubeletReport
from agent.reconcile import HOLDERS_AWAITED_S, RETRY_FILES_S, Reconciler
from agent.state_events import HoldersReported, PoolsChanged
from agent.watch.rescan import QUIET_S
from tests.support.devices import host, vf
from tests.support.log_lines import LogLines
from tests.support.pools import config, pool
from tests.support.reconciling import VF, Node, carrier, family, ids, node
from tests.support.scripted import RecordingFleet, ScriptedHost, ScriptedSpecs, now

pytestmark = pytest.mark.looptime

HOLD_S = 1.0
POD = PodOwner(VF, "pod", "default", "main")


async def test_the_first_pass_offers_every_pool_that_has_devices() -> None:
    pools = (pool("vf"), pool("fec", deviceType="accelerator"))
    async with node(*family(2), pools=pools) as at:
        assert [(o.resource, len(o.devices)) for o in at.fleet.applied[0][1]] == [(VF, 2)]


async def test_a_pool_without_devices_is_listed_with_advertise_empty() -> None:
    pools = (pool("fec", deviceType="accelerator", advertiseEmpty=True),)
    async with node(*family(2), pools=pools) as at:
        assert at.lists("intel.com/fec") == [(0.0, ())]


async def test_only_resources_that_this_process_may_serve_are_offered() -> None:
    own: set[str] = set()
    async with node(*family(2), claim=lambda wanted: wanted & own) as at:
        assert at.fleet.applied == [(0.0, ())]
        assert at.fleet.served_elsewhere == {VF}
        own.add(VF)
        at.bus.publish(ResourceLocksChanged())
        await asyncio.sleep(1.0)
        assert at.lists() == [(0.0, ids(2))]
        assert at.fleet.served_elsewhere == frozenset()


async def test_only_resources_with_devices_are_claimed_another_agent_can_have_the_rest() -> None:
    claims: list[frozenset[str]] = []

    def claim(wanted: frozenset[str]) -> frozenset[str]:
        claims.append(wanted)
        return wanted

    pools = (pool("vf"), pool("fec", deviceType="accelerator"))
    async with node(*family(2), pools=pools, claim=claim):
        assert claims == [{VF}]


async def test_a_pool_that_had_devices_stays_and_shows_none() -> None:
    async with node(*family(2)) as at:
        at.host()
        await asyncio.sleep(1.0)
        assert at.lists() == [(0.0, ids(2)), (0.0, ())]
        assert [o.resource for o in at.fleet.applied[-1][1]] == [VF]


async def test_a_pool_appears_when_its_first_device_does() -> None:
    async with node() as at:
        assert at.fleet.applied == [(0.0, ())]
        await asyncio.sleep(5.0)
        at.host(*family(1))
        await asyncio.sleep(1.0)
        assert at.lists() == [(5.0, ids(1))]


async def test_nothing_happens_without_a_change() -> None:
    async with node(*family(2)) as at:
        await asyncio.sleep(3600.0)
        assert len(at.fleet.applied) == 1


def report(bus: Bus, kubelet_report: KubeletReport, *, asked_at: float) -> None:
    """Kubelet reports which pods hold devices."""
    bus.publish(HoldersReported(kubelet_report, asked_at))


def causes(at: Node) -> list[float | None]:
    """Which event led to each list that the fleet was offered."""
    return [offer.seen_at for _, offers in at.fleet.applied for offer in offers]


async def test_a_list_has_the_time_of_the_first_event_that_caused_it() -> None:
    async with node(*family(2)) as at:
        await asyncio.sleep(9.0)
        at.bus.publish(LinksChanged(Links(), seen_at=8.0))
        at.bus.publish(SnapshotTaken(host(*family(1)), settled=False, seen_at=7.0))
        at.bus.publish(LinksChanged(Links(), seen_at=9.0))
        await asyncio.sleep(1.0)
        assert causes(at) == [None, 7.0]


async def test_an_event_is_the_cause_of_one_pass_only() -> None:
    async with node(*family(2)) as at:
        at.bus.publish(LinksChanged(Links(), seen_at=1.0))
        await asyncio.sleep(1.0)
        at.bus.publish(ResourceLocksChanged())
        await asyncio.sleep(1.0)
        assert causes(at) == [None, 1.0, None]


async def test_an_event_during_a_pass_is_the_cause_of_the_next() -> None:
    async with node(*family(2), specs=ScriptedSpecs(write_s=1.0)) as at:
        at.bus.publish(ResourceLocksChanged())
        await asyncio.sleep(0.5)
        at.bus.publish(LinksChanged(Links(), seen_at=1.0))
        await asyncio.sleep(5.0)
        assert causes(at) == [None, None, 1.0]


async def test_additions_wait_for_a_quiet_host_and_removals_do_not() -> None:
    one, two = family(2)[1:]
    parent = family(2)[0]
    later = vf("0000:3b:03.0", parent, 9)
    async with node(parent, one, two) as at:
        await asyncio.sleep(1.0)
        at.host(parent, two, later, settled=False)
        await asyncio.sleep(1.0)
        at.host(parent, two, later, settled=True)
        await asyncio.sleep(1.0)
        assert at.lists() == [
            (0.0, ids(2)),
            (1.0, ((two.id, True),)),
            (2.0, ((two.id, True), (later.id, True))),
        ]


async def test_a_device_that_moves_between_pools_leaves_at_once_and_joins_when_settled() -> None:
    parent, function = family(1)
    bound = attrs.evolve(function, driver="vfio-pci", iommu_group=7)
    pools = (pool("kernel", {"drivers": ["iavf"]}), pool("dpdk", {"drivers": ["vfio-pci"]}))
    async with node(parent, function, pools=pools) as at:
        at.host(parent, bound, settled=False)
        await asyncio.sleep(1.0)
        assert at.lists("intel.com/kernel")[-1] == (0.0, ())
        assert at.lists("intel.com/dpdk") == []
        at.host(parent, bound, settled=True)
        await asyncio.sleep(1.0)
        assert at.lists("intel.com/dpdk") == [(1.0, ((function.id, True),))]


async def test_a_burst_of_inputs_is_one_pass_and_one_offer() -> None:
    async with node(*family(2)) as at:
        await asyncio.sleep(1.0)
        for turn in range(100):
            at.bus.publish(carrier(up=bool(turn % 2)))
            at.host(*family(2 + turn % 2))
        await asyncio.sleep(0.5)
        assert [when for when, _ in at.fleet.applied] == [0.0, 1.0]


async def test_streams_run_before_a_change_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    async with node(*family(2)) as at:
        applied, apply = asyncio.Event(), at.fleet.apply

        async def stream() -> None:
            await applied.wait()  # woken in one turn
            for _ in range(8):  # and sending after others
                order.append("sent")
                await asyncio.sleep(0)
            order.append("late")

        def noted(offers: tuple[DeviceListing, ...], elsewhere: frozenset[str]) -> None:
            apply(offers, elsewhere)
            applied.set()

        monkeypatch.setattr(type(at.fleet), "apply", lambda _, *given: noted(*given))
        sending = asyncio.create_task(stream())
        at.bus.on(DevicesUnhealthy, lambda _: order.append("published"))
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(1.0)
        await sending
    assert order == [*["sent"] * 8, "published", "late"]


async def test_256_vfs_of_a_pf_that_goes_down_are_one_apply_and_one_list() -> None:
    async with node(*family(256)) as at:
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(10.0)
        assert len(at.fleet.applied) == 2
        assert at.lists() == [(0.0, ids(256)), (1.0, ids(256, healthy=False))]


async def test_many_pools_of_one_pf_go_down_in_one_apply() -> None:
    pools = tuple(pool(f"p{n}", {"pfNames": [f"pf0#{8 * n}-{8 * n + 7}"]}) for n in range(32))
    async with node(*family(256), pools=pools) as at:
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(0.5)
        (_, last) = at.fleet.applied[1:][0]
        assert len(at.fleet.applied) == 2
        assert len(last) == 32
        assert not any(d.healthy for o in last for d in o.devices)


async def test_recovery_is_reported_after_the_hold_and_without_another_event() -> None:
    async with node(*family(2)) as at:
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(3.0)
        at.bus.publish(carrier(up=True))
        await asyncio.sleep(10.0)
        assert at.lists() == [
            (0.0, ids(2)),
            (0.0, ids(2, healthy=False)),
            (3.0 + HOLD_S, ids(2)),
        ]


async def test_each_pool_has_its_own_hold_time() -> None:
    pools = (
        pool("quick", {"pfNames": ["pf0#0"]}, health={"recoveryHoldSeconds": 0}),
        pool("slow", {"pfNames": ["pf0#1"]}, health={"recoveryHoldSeconds": 5}),
    )
    async with node(*family(2), pools=pools) as at:
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(3.0)
        at.bus.publish(carrier(up=True))
        await asyncio.sleep(10.0)
        assert [when for when, _ in at.lists("intel.com/quick")] == [0.0, 0.0, 3.0]
        assert [when for when, _ in at.lists("intel.com/slow")] == [0.0, 0.0, 8.0]


async def test_a_flapping_link_is_reported_as_down_once_and_up_once() -> None:
    async with node(*family(2)) as at:
        for _ in range(50):
            at.bus.publish(carrier(up=False))
            await asyncio.sleep(0.3)
            at.bus.publish(carrier(up=True))
            await asyncio.sleep(0.3)
        await asyncio.sleep(10.0)
        assert [healthy for _, devices in at.lists() for _, healthy in devices[:1]] == [
            True,
            False,
            True,
        ]


async def test_a_burst_of_new_vfs_with_a_flap_of_the_pfs_carrier_is_at_most_two_lists() -> None:
    machine = ScriptedHost((family(0)[0],), scan_s=0.01)
    async with node(*machine.devices, pools=(pool("vf", {"pfNames": ["pf0"]}),)) as at:
        monitoring = asyncio.create_task(machine.rescan_loop(at.bus).run())
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().call_later(0.02, at.bus.publish, carrier(up=False))
        asyncio.get_running_loop().call_later(0.52, at.bus.publish, carrier(up=True))
        for count in range(1, 9):
            machine.devices = family(8)[: 1 + count]
            for _ in range(4):
                at.bus.publish(HostChanged())
                await asyncio.sleep(0.005)
        await asyncio.sleep(10.0)
        monitoring.cancel()
        assert [devices for _, devices in at.lists()] == [ids(8, healthy=False), ids(8)]


async def test_vfs_that_appear_and_disappear_fifty_times_end_in_a_correct_list_each_time() -> None:
    machine = ScriptedHost(family(0)[:0], scan_s=0.01)
    async with node() as at:
        monitoring = asyncio.create_task(machine.rescan_loop(at.bus).run())
        await asyncio.sleep(0)
        for turn in range(50):
            for count in (4, 0, 8)[: 1 + turn % 3]:
                machine.devices = family(count) if count else ()
                at.bus.publish(HostChanged())
                await asyncio.sleep(0.01)
            await asyncio.sleep(2.0)
            last = at.lists()[-1][1] if at.lists() else ()
            assert last == (ids(count) if count else ())
        monitoring.cancel()


async def test_a_config_change_leaves_the_offers_of_unchanged_pools_as_they_were() -> None:
    low, high = pool("low", {"pfNames": ["pf0#0"]}), pool("high", {"pfNames": ["pf0#1"]})
    async with node(*family(2), pools=(low, high)) as at:
        before = at.fleet.applied[-1][1]
        at.bus.publish(ConfigChanged(config(low, pool("other", {"pfNames": ["pf0#1"]}))))
        await asyncio.sleep(1.0)
        after = at.fleet.applied[-1][1]
        assert [o.resource for o in after] == ["intel.com/low", "intel.com/other"]
        assert after[0] == before[0]


async def test_devices_of_a_new_pool_wait_for_a_quiet_host() -> None:
    async with node(*family(2), pools=(pool("low", {"pfNames": ["pf0#0"]}),)) as at:
        low, high = pool("low", {"pfNames": ["pf0#0"]}), pool("high", {"pfNames": ["pf0#1"]})
        at.host(*family(2), settled=False)
        at.bus.publish(ConfigChanged(config(low, high)))
        await asyncio.sleep(1.0)
        assert at.lists("intel.com/high") == []
        at.host(*family(2))
        await asyncio.sleep(1.0)
        assert at.lists("intel.com/high") == [(1.0, ids(2)[1:])]


async def test_a_pool_that_is_removed_and_returns_empty_is_not_listed() -> None:
    async with node(*family(2)) as at:
        at.bus.publish(ConfigChanged(config()))
        await asyncio.sleep(1.0)
        at.host()
        at.bus.publish(ConfigChanged(config(pool("vf"))))
        await asyncio.sleep(1.0)
        assert at.fleet.applied[-1][1] == ()


async def test_a_held_device_that_disappears_is_listed_as_unhealthy_and_removed_when_freed() -> (
    None
):
    parent, first, second = family(2)
    async with node(parent, first, second) as at:
        report(at.bus, KubeletReport({second.id: POD}, is_complete=True), asked_at=now())
        at.host(parent, first)
        await asyncio.sleep(1.0)
        assert at.lists()[-1][1] == ((first.id, True), (second.id, False))
        report(at.bus, KubeletReport({}, is_complete=True), asked_at=now())
        await asyncio.sleep(1.0)
        assert at.lists()[-1][1] == ((first.id, True),)


async def test_a_device_counts_as_held_from_the_answer_to_allocate() -> None:
    parent, first, second = family(2)
    async with node(parent, first, second) as at:
        at.bus.publish(DevicesAllocated(VF, (first.id,)))
        at.host(parent, second)
        await asyncio.sleep(1.0)
        assert at.lists()[-1][1] == ((first.id, False), (second.id, True))
        report(at.bus, KubeletReport({}, is_complete=True), asked_at=now() + CONFIRM_WITHIN_S)
        await asyncio.sleep(1.0)
        assert at.lists()[-1][1] == ((second.id, True),)


async def test_the_choosing_selector_object_is_remembered_from_the_allocation_on() -> None:
    parent, first, second = family(2)
    async with node(parent, first, second) as at:
        member = at.reconciler.pools.by_resource[VF].by_id[first.id]
        at.bus.publish(DevicesAllocated(VF, (first.id,)))
        at.bus.publish(DevicesAllocated("intel.com/other", (second.id,)))
        await asyncio.sleep(1.0)
        assert at.reconciler.pools.held.chosen == {first.id: member.selectors}


async def test_an_allocation_during_the_first_pass_is_tracked() -> None:
    bus = Bus()
    reconciler = Reconciler(bus, RecordingFleet(), ScriptedSpecs())
    bus.publish(DevicesAllocated(VF, ("0000:3b:02.0",)))
    assert reconciler.tracker.held.of(VF) == {"0000:3b:02.0"}


async def test_holders_that_are_reported_again_cause_no_pass() -> None:
    async with node(*family(2)) as at:
        for _ in range(10):
            report(at.bus, KubeletReport({family(2)[1].id: POD}, is_complete=True), asked_at=now())
            await asyncio.sleep(1.0)
        assert len(at.fleet.applied) == 2


async def test_the_last_facts_of_a_held_device_are_kept_in_case_it_disappears() -> None:
    parent, first = family(1)
    numa = attrs.evolve(first, numa_node=1)
    async with node(parent, numa) as at:
        report(at.bus, KubeletReport({first.id: POD}, is_complete=True), asked_at=now())
        at.host(parent)
        await asyncio.sleep(1.0)
        (offer,) = at.fleet.applied[-1][1]
        assert [(d.id, d.healthy, d.numa_node) for d in offer.devices] == [(first.id, False, 1)]


async def test_specs_are_written_before_their_list_is_sent() -> None:
    async with node(*family(1), specs=ScriptedSpecs(write_s=0.5)) as at:
        await asyncio.sleep(1.0)
        at.host(*family(2))
        await asyncio.sleep(2.0)
        assert at.specs.written == [(0.0, 1), (1.5, 1)]
        assert at.lists() == [(0.5, ids(1)), (2.0, ids(2))]


async def test_changes_while_specs_are_written_are_reported_by_the_next_pass() -> None:
    async with node(*family(1), specs=ScriptedSpecs(write_s=0.5)) as at:
        at.host(*family(2))
        await asyncio.sleep(0.1)
        at.host(*family(3))
        await asyncio.sleep(5.0)
        assert [devices for _, devices in at.lists()] == [ids(1), ids(2), ids(3)]


async def test_a_spec_that_cannot_be_written_makes_devices_unhealthy_until_it_can() -> None:
    first = family(1)[1].id
    verdict = Health(Cause.NODE, "its CDI spec cannot be written: disk full")
    specs = ScriptedSpecs(failing={VF: {first: verdict}})
    async with node(*family(2), specs=specs) as at:
        assert at.lists()[0][1][0] == (first, False)
        await asyncio.sleep(3.5 * RETRY_FILES_S)
        assert [when for when, _ in at.specs.written] == [n * RETRY_FILES_S for n in range(4)]
        at.specs.failing = {}
        await asyncio.sleep(2 * RETRY_FILES_S)
        assert at.lists()[-1] == (4 * RETRY_FILES_S + HOLD_S, ids(2))
        assert len(at.specs.written) == 6


async def test_each_change_is_one_event_and_one_line(log_lines: LogLines) -> None:
    async with node(*family(2)) as at:
        told: list[DevicesUnhealthy | DevicesHealthy] = []
        assignments: list[PoolsChanged] = []
        at.bus.on(DevicesUnhealthy, told.append)
        at.bus.on(DevicesHealthy, told.append)
        at.bus.on(PoolsChanged, assignments.append)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=True))
        await asyncio.sleep(10.0)
        assert [e.count for e in told] == [2, 2]
        assert assignments == []
    assert log_lines.events() == [
        "device.added",
        "pool.assigned",
        "device.unhealthy",
        "device.healthy",
    ]


async def test_pools_are_logged_only_once_the_host_has_settled(log_lines: LogLines) -> None:
    async with node() as at:
        for count in range(1, 5):
            at.host(*family(4)[: 1 + count], settled=False)
            await asyncio.sleep(0.05)
        at.host(*family(4))
        await asyncio.sleep(1.0)
    assert [f["devices"] for f in log_lines.fields("pool.assigned")] == [0, 4]
    assert [f["count"] for f in log_lines.fields("device.added")] == [4]


async def test_while_the_host_has_not_settled_the_state_has_the_pools_as_offered() -> None:
    async with node(*family(1)) as at:
        seen: list[int] = []
        at.bus.on(PoolsChanged, lambda _: seen.append(len(at.reconciler.pools.pools[0].members)))
        at.host(*family(3), settled=False)
        await asyncio.sleep(1.0)
        assert len(at.reconciler.pools.pools[0].members) == 1
        at.host(*family(3))
        await asyncio.sleep(1.0)
        assert seen == [1, 3]


async def test_the_same_snapshot_once_more_as_settled_brings_the_additions() -> None:
    async with node(*family(1)) as at:
        taken = Snapshot(devices=family(3))
        at.bus.publish(SnapshotTaken(taken, settled=False))
        await asyncio.sleep(QUIET_S)
        at.bus.publish(SnapshotTaken(taken, settled=True))
        await asyncio.sleep(1.0)
        assert at.lists() == [(0.0, ids(1)), (QUIET_S, ids(3))]


def admin(*, up: bool) -> LinksChanged:
    """What netlink tells when the PF is set up or down."""
    return LinksChanged(Links({5: LinkFact(5, "pf0", admin_up=up, carrier=up)}))


async def test_a_pf_that_is_set_down_causes_one_warning_each_time(log_lines: LogLines) -> None:
    async with node(*family(2)) as at:
        for up in (False, True, False):
            at.bus.publish(admin(up=up))
            await asyncio.sleep(HOLD_S * 2)
        at.host(*family(3))
        await asyncio.sleep(HOLD_S * 2)
        assert at.lists() == [(0.0, ids(2)), (6.0, ids(3))]
    warning = {"pf": "0000:3b:00.0", "interface": "pf0", "driver": "i40e"}
    assert log_lines.fields("host.pf_down") == [warning] * 2


async def test_no_warning_is_logged_for_a_pf_if_no_pool_checks_the_link_of_its_functions(
    log_lines: LogLines,
) -> None:
    async with node(*family(2), pools=(pool("vf", health={"link": False}),)) as at:
        at.bus.publish(admin(up=False))
        await asyncio.sleep(HOLD_S)
    assert log_lines.fields("host.pf_down") == []


async def test_a_device_whose_pod_failed_soon_rests_and_others_are_preferred(
    log_lines: LogLines,
) -> None:
    """It was given, and kubelet never listed a pod that has it."""
    async with node(*family(2)) as at:
        device = family(2)[1].id
        told: list[DevicesResting] = []
        at.bus.on(DevicesResting, told.append)
        at.bus.publish(DevicesAllocated(VF, (device,)))
        await asyncio.sleep(31.0)
        report(at.bus, KubeletReport({}, is_complete=True), asked_at=now())
        assert told == [DevicesResting({device: 31.0 + REST_S})]
        assert at.reconciler.resting() == {device: REST_S}
        report(at.bus, KubeletReport({}, is_complete=True), asked_at=now())
        assert log_lines.fields("device.resting") == [{"seconds": REST_S, "devices": device}]
        await asyncio.sleep(REST_S)
        assert at.reconciler.resting() == {}


async def test_a_device_that_was_refused_rests_and_stays_in_the_list() -> None:
    async with node(*family(2)) as at:
        device = family(2)[1].id
        at.bus.publish(DevicesReturned(VF, (device,)))
        assert at.reconciler.resting() == {device: REST_S}
        assert at.lists()[-1][1] == ids(2)


async def test_devices_wait_for_the_first_report_of_holders_for_a_limited_time() -> None:
    """A VF without its netdev may be in a pod of the pool that asks for an RDMA device."""
    rdma, rest = pool("rdma", {"isRdma": True}), pool("any", {})
    async with node(*family(1), pools=()) as at:
        at.reconciler.await_holders()
        at.bus.publish(ConfigChanged(config(rdma, rest)))
        await asyncio.sleep(HOLDERS_AWAITED_S - 1)
        assert at.lists("intel.com/any") == []
        await asyncio.sleep(2)
        assert at.lists("intel.com/any")[-1][1] == ids(1)


async def test_a_pass_before_the_first_configuration_offers_nothing_and_needs_no_thread() -> None:
    bus, fleet = Bus(), RecordingFleet()
    reconciler = Reconciler(bus, fleet, ScriptedSpecs())
    bus.publish(SnapshotTaken(host(*family(2)), settled=True))
    with patch.dict(blocking._workers, clear=True):
        await reconciler.reconcile()
        assert not blocking._workers
    assert fleet.applied == [(0.0, ())]


async def test_a_device_stops_resting_at_the_end_of_its_time() -> None:
    async with node(*family(2)) as at:
        device = family(2)[1].id
        at.bus.publish(DevicesReturned(VF, (device,)))
        await asyncio.sleep(REST_S - 1.0)
        assert at.reconciler.resting() == {device: 1.0}
        await asyncio.sleep(1.0)
        assert at.reconciler.resting() == {}


async def test_a_recovery_that_was_broken_off_causes_no_pass_when_it_would_have_been_due() -> None:
    async with node(*family(2), pools=(pool("vf", health={"recoveryHoldSeconds": 10}),)) as at:
        for up in (False, True, False):
            at.bus.publish(carrier(up=up))
            await asyncio.sleep(1.0)
        passes = len(at.fleet.applied)
        await asyncio.sleep(60.0)
        assert len(at.fleet.applied) == passes


class HangingRecord:
    """A record of the devices given to pods, in a folder that hangs until it is told to answer."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.kept: list[frozenset[str]] = []
        self.broken_off = 0

    async def keep(self, holders: Mapping[str, PodOwner]) -> None:
        self.kept.append(frozenset(holders))
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise


async def test_a_record_that_hangs_delays_no_list_and_is_asked_again_once_it_answers() -> None:
    record, (_, device, *_) = HangingRecord(), family(2)
    async with node(*family(2), record=record) as at:
        at.bus.publish(DevicesAllocated(VF, (device.id,)))
        await asyncio.sleep(1.0)
        at.bus.publish(carrier(up=False))
        await asyncio.sleep(1.0)
        assert at.lists()[-1] == (1.0, ids(2, healthy=False))
        assert record.kept == [frozenset()]
        record.answers.set()
        await asyncio.sleep(0)
        at.host(*family(2), settled=False)
        await asyncio.sleep(1.0)
        assert record.kept == [frozenset(), {device.id}]
    assert record.broken_off == 0


async def test_the_end_breaks_off_a_record_that_hangs_and_leaves_the_bus() -> None:
    record = HangingRecord()
    async with node(*family(2), record=record) as at:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert record.broken_off == 1
    at.host()
    at.bus.publish(ConfigChanged(config()))
    assert len(at.reconciler.snapshot.devices) == 3
    assert len(at.reconciler.config.pools) == 1

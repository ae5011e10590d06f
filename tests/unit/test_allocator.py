from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from agent import blocking
from agent.allocator import Allocator, Checks
from agent.blocking import THREADS
from agent.bus import Bus
from agent.config.schema import AllocationPolicy
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.export.given import GivenRecord
from agent.export.specs import CdiMode, CdiSpecs
from agent.kinds import ACCELERATOR
from agent.model.answers import Allocation, DeviceNode
from agent.model.device import Device, Netdev, RdmaDevice
from agent.model.events import DevicesAllocated, DevicesResting, DevicesReturned, HostChanged
from agent.model.nodes import HostNodes
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.allocation_tracker import SHORT_LIFE_S
from agent.pools.pool import Pools
from agent.roots import Roots
from tests.support.devices import host, pf, sf, vf
from tests.support.log_lines import LogLines
from tests.support.pools import assigned, held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
PF1 = pf("0000:3b:00.1", "pf1", num_vfs=4)
SPARE = pf("0000:3b:00.2", "pf2")
IB = pf("0000:3b:00.0", num_vfs=4, netdevs=(Netdev("ib0", link_type="infiniband"),))
VF = "intel.com/vf"
A, B = "0000:3b:02.0", "0000:3b:02.1"

Reread = Callable[[tuple[Device, ...]], tuple[Device, ...]]


def vfio(address: str, index: int, group: int, of: Device = PF0) -> Device:
    return vf(address, of, index, driver="vfio-pci", iommu_group=group)


PLAIN = assigned(host(PF0, vfio(A, 0, 21), vfio(B, 1, 22)), pool("vf"))


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return Roots(tmp_path)


def allocator(
    roots: Roots,
    pools: Pools = PLAIN,
    *,
    refresh: Reread = lambda devices: devices,
    cdi: CdiMode | None = None,
    specs: CdiSpecs | None = None,
    policy: AllocationPolicy = AllocationPolicy.DEFAULT,
    bus: Bus | None = None,
) -> Allocator:
    bus = bus or Bus()
    return Allocator(roots, bus, lambda: pools, refresh, cdi=cdi, specs=specs, policy=policy)


def info_files(roots: Roots) -> dict[str, Any]:
    return {p.name: json.loads(p.read_bytes()) for p in sorted(roots.device_info.glob("*"))}


def noted(bus: Bus) -> list[DevicesAllocated]:
    events: list[DevicesAllocated] = []
    bus.on(DevicesAllocated, events.append)
    return events


@pytest.mark.parametrize(("asked", "groups"), [((A, B), (21, 22)), ((B, A), (22, 21))])
async def test_ids_are_in_stable_order_and_nodes_in_the_order_of_the_request(
    roots: Roots, asked: tuple[str, str], groups: tuple[int, int]
) -> None:
    answer = await allocator(roots).allocate(VF, asked)
    assert dict(answer.envs)["PCIDEVICE_INTEL_COM_VF"] == f"{A},{B}"
    assert [n.host_path for n in answer.nodes] == ["/dev/vfio/vfio", *_group_nodes(groups)]


def _group_nodes(groups: tuple[int, int]) -> list[str]:
    return [f"/dev/vfio/{group}" for group in groups]


async def test_an_answer_has_envs_and_nodes_and_its_device_info_files_are_there(
    roots: Roots,
) -> None:
    answer = await allocator(roots).allocate(VF, (B, A))
    assert dict(answer.envs)["PCIDEVICE_INTEL_COM_VF"] == f"{A},{B}"
    assert [n.host_path for n in answer.nodes] == ["/dev/vfio/vfio", "/dev/vfio/22", "/dev/vfio/21"]
    assert (answer.annotations, answer.cdi_devices) == ((), ())
    assert list(info_files(roots)) == [f"intel.com-vf-{i}-device.json" for i in (A, B)]


async def test_an_answer_is_published_and_logged(roots: Roots, log_lines: LogLines) -> None:
    bus = Bus()
    events = noted(bus)
    await allocator(roots, bus=bus).allocate(VF, (B, A, B))
    assert events == [DevicesAllocated(VF, (A, B))]
    (line,) = log_lines.fields("allocation.made")
    took_ms = line.pop("took_ms")
    assert took_ms >= 0
    assert line == {
        "resource": VF,
        "devices": f"{A},{B}",
        "nodes": "/dev/vfio/vfio,/dev/vfio/22,/dev/vfio/21",
        "cdi": "",
    }


@pytest.mark.parametrize(("resource", "ids"), [("intel.com/other", (B, A)), (VF, (A, "x", "b"))])
async def test_unknown_resources_and_devices_are_refused_and_nothing_is_written(
    roots: Roots, log_lines: LogLines, resource: str, ids: tuple[str, ...]
) -> None:
    bus = Bus()
    events = noted(bus)
    with pytest.raises(UnknownDeviceError) as refused:
        await allocator(roots, bus=bus).allocate(resource, ids)
    assert refused.value.device_ids == ((A, B) if resource != VF else ("b", "x"))
    assert (events, info_files(roots)) == ([], {})
    assert log_lines.fields("allocation.refused") == [
        {"resource": resource, "error": str(refused.value)}
    ]


async def test_additional_info_is_not_logged(roots: Roots, log_lines: LogLines) -> None:
    pools = assigned(host(PF0, vfio(A, 0, 21)), pool("vf", additionalInfo={"*": {"t": "secret"}}))
    answer = await allocator(roots, pools).allocate(VF, (A,))
    assert "secret" in dict(answer.envs)["PCIDEVICE_INTEL_COM_VF_INFO"]
    assert "secret" not in log_lines.stream.getvalue()


async def test_facts_are_read_again_for_the_answer(roots: Roots) -> None:
    hidden = vf(A, PF0, 0, rdma_enabled=True)
    back = attrs.evolve(hidden, rdma=(RdmaDevice("mlx5_7", uverbs=("/dev/infiniband/uverbs7",)),))
    pools = assigned(host(PF0, hidden), pool("vf", {"isRdma": True}))
    with pytest.raises(DeviceNotUsableError, match="no RDMA device"):
        await allocator(roots, pools).allocate(VF, (A,))
    answer = await allocator(roots, pools, refresh=lambda _: (back,)).allocate(VF, (A,))
    assert answer.nodes == (DeviceNode("/dev/infiniband/uverbs7", "/dev/infiniband/uverbs7"),)
    (document,) = info_files(roots).values()
    assert document["pci"]["rdma-device"] == "mlx5_7"


async def test_a_device_that_vanished_since_the_last_scan_is_refused(roots: Roots) -> None:
    with pytest.raises(DeviceNotUsableError, match=rf"^{B}: is no longer on the host$"):
        await allocator(roots, refresh=lambda devices: devices[:1]).allocate(VF, (A, B))


async def test_a_device_whose_driver_changed_since_the_last_scan_is_refused(roots: Roots) -> None:
    pools = assigned(host(PF0, vfio(A, 0, 21)), pool("vf", {"drivers": ["vfio-pci"]}))
    rebound = vf(A, PF0, 0, driver="iavf")
    with pytest.raises(DeviceNotUsableError) as refused:
        await allocator(roots, pools, refresh=lambda _: (rebound,)).allocate(VF, (A,))
    assert refused.value.reason == "driver iavf, but the pool selects drivers vfio-pci"
    assert info_files(roots) == {}


async def test_a_device_that_lost_its_driver_since_the_last_scan_is_refused(roots: Roots) -> None:
    pools = assigned(host(PF0, vf(A, PF0, 0)), pool("vf", {"pfNames": ["pf0"]}))
    unbound = vf(A, PF0, 0, driver=None)
    with pytest.raises(DeviceNotUsableError) as refused:
        await allocator(roots, pools, refresh=lambda _: (unbound,)).allocate(VF, (A,))
    assert refused.value.reason == "no driver is bound, so no pod could use it"
    assert info_files(roots) == {}


async def test_hidden_facts_other_than_the_driver_do_not_refuse(roots: Roots) -> None:
    function = vf(A, PF0, 0)
    shown = pf("0000:3b:00.0", "pf0", num_vfs=4, netdevs=())
    pools = assigned(
        host(shown, function), pool("vf", {"linkTypes": ["ether"]}), held=held("vf", function)
    )
    answer = await allocator(roots, pools).allocate(VF, (A,))
    assert dict(answer.envs)["PCIDEVICE_INTEL_COM_VF"] == A


async def test_a_pf_is_refused_if_a_pod_was_just_allocated_a_sub_function_of_it(
    roots: Roots,
) -> None:
    sub = sf(SPARE, 7, netdevs=(Netdev("pf2s7"),))
    pools = assigned(host(SPARE, sub), pool("vf"))
    pods_use_it = attrs.evolve(
        pools, sub_functions_in_use={SPARE.id: f"pods use its sub-functions: {sub.id}"}
    )
    with pytest.raises(DeviceNotUsableError) as refused:
        await allocator(roots, pods_use_it).allocate(VF, (SPARE.id,))
    assert refused.value.reason == f"is a PF, and pods use its sub-functions: {sub.id}"


async def test_a_device_that_a_pod_held_and_that_no_longer_exists_is_refused(roots: Roots) -> None:
    pools = assigned(host(PF0), pool("vf"), held=held("vf", vfio(A, 0, 21)))
    with pytest.raises(DeviceNotUsableError, match="is no longer on the host"):
        await allocator(roots, pools).allocate(VF, (A,))


@pytest.mark.looptime
async def test_the_wait_for_a_read_that_hangs_is_limited(roots: Roots, log_lines: LogLines) -> None:
    go = threading.Event()

    def hangs(devices: tuple[Device, ...]) -> tuple[Device, ...]:
        go.wait(20)
        return devices

    fec = pf("0000:b0:00.0", kind=ACCELERATOR, driver="vfio-pci", iommu_group=3)
    pools = assigned(host(fec), pool("vf", deviceType="accelerator"))
    began = asyncio.get_running_loop().time()
    answer = await allocator(roots, pools, refresh=hangs).allocate(VF, (fec.id,))
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)
    go.set()
    assert [n.host_path for n in answer.nodes] == ["/dev/vfio/vfio", "/dev/vfio/3"]
    assert log_lines.fields("allocation.stale_facts") == [{"devices": fec.id}]


async def test_reads_that_hang_are_limited_in_number_and_started_again_once_they_end(
    roots: Roots,
) -> None:
    go = threading.Event()
    begun: list[threading.Thread] = []

    def hangs(devices: tuple[Device, ...]) -> tuple[Device, ...]:
        begun.append(threading.current_thread())
        go.wait(20)
        return devices

    asked = allocator(roots, refresh=hangs)
    for _ in range(THREADS["reread"] + 3):
        assert (await asked.allocate(VF, (A,))).envs
    assert len(begun) == THREADS["reread"]
    answers = asyncio.Event()
    end = blocking.on_change(lambda: None if blocking.hanging() else answers.set())
    go.set()
    await answers.wait()
    end()
    await asked.allocate(VF, (A,))
    assert len(begun) == THREADS["reread"] + 1


async def test_a_process_without_descriptors_answers_with_the_facts_of_the_last_scan(
    roots: Roots, log_lines: LogLines
) -> None:
    def fails(_: tuple[Device, ...]) -> tuple[Device, ...]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    assert (await allocator(roots, refresh=fails).allocate(VF, (A,))).envs
    assert log_lines.fields("allocation.stale_facts") == [{"devices": A}]


async def test_an_unexpected_exception_in_a_read_is_not_treated_as_a_slow_read(
    roots: Roots,
) -> None:
    def fails(_: tuple[Device, ...]) -> tuple[Device, ...]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await allocator(roots, refresh=fails).allocate(VF, (A,))


async def test_a_device_without_its_device_info_file_is_not_allocated(roots: Roots) -> None:
    (roots.device_info / f"intel.com-vf-{A}-device.json").mkdir(parents=True)
    bus = Bus()
    events = noted(bus)
    with pytest.raises(DeviceNotUsableError, match="device-info file cannot be written"):
        await allocator(roots, bus=bus).allocate(VF, (A,))
    assert events == []


NAMES = (f"intel.com/net-pci={A}", f"intel.com/net-pci={B}")
ANNOTATIONS = (("cdi.k8s.io/intel.com_net-pci_vf", ",".join(NAMES)),)


@pytest.mark.parametrize(
    ("mode", "cdi_devices", "annotations"),
    [
        ("field", NAMES, ()),
        ("annotations", (), ANNOTATIONS),
        ("both", NAMES, ANNOTATIONS),
    ],
)
async def test_with_cdi_the_answer_has_device_names_instead_of_nodes(
    roots: Roots,
    mode: CdiMode,
    cdi_devices: tuple[str, ...],
    annotations: tuple[tuple[str, str], ...],
) -> None:
    plain = await allocator(roots).allocate(VF, (A, B))
    answer = await allocator(roots, cdi=mode).allocate(VF, (B, A))
    assert answer == Allocation(
        envs=plain.envs, nodes=(), annotations=annotations, cdi_devices=cdi_devices
    )


@pytest.mark.parametrize("mode", ["field", "annotations", "both"])
async def test_with_cdi_a_device_without_nodes_has_no_name(roots: Roots, mode: CdiMode) -> None:
    pools = assigned(host(PF0, vf(A, PF0, 0)), pool("vf"))
    answer = await allocator(roots, pools, cdi=mode).allocate(VF, (A,))
    assert (answer.cdi_devices, answer.annotations, answer.nodes) == ((), (), ())
    assert dict(answer.envs)["PCIDEVICE_INTEL_COM_VF"] == A


async def test_two_pools_of_one_prefix_have_annotations_that_do_not_hide_each_other(
    roots: Roots,
) -> None:
    pools = assigned(
        host(PF0, vfio(A, 0, 21), vfio(B, 1, 22)), pool("a", {"pfNames": ["pf0#0"]}), pool("b")
    )
    asked = allocator(roots, pools, cdi="annotations")
    first = await asked.allocate("intel.com/a", (A,))
    second = await asked.allocate("intel.com/b", (B,))
    assert dict(first.annotations).keys().isdisjoint(dict(second.annotations))


TWO_PFS = host(
    PF0,
    PF1,
    vfio(A, 0, 1),
    vfio(B, 1, 2),
    vfio("0000:3b:0a.0", 0, 3, PF1),
    vfio("0000:3b:0a.1", 1, 4, PF1),
)
FOUR = (A, B, "0000:3b:0a.0", "0000:3b:0a.1")


async def test_the_pools_own_policy_comes_before_the_default_of_the_command_line(
    roots: Roots,
) -> None:
    pools = assigned(
        TWO_PFS,
        pool("lowest", {"pfNames": ["pf9"]}),
        pool("vf", allocationPolicy="spread"),
    )
    asked = allocator(roots, pools, policy=AllocationPolicy.PACKED)
    assert await asked.prefer(VF, FOUR, (), 2) == (A, "0000:3b:0a.0")


async def test_a_pool_may_select_the_default_policy(roots: Roots) -> None:
    pools = assigned(TWO_PFS, pool("vf", allocationPolicy=""))
    asked = allocator(roots, pools, policy=AllocationPolicy.SPREAD)
    assert await asked.prefer(VF, FOUR, (), 2) == (A, B)


async def test_the_default_of_the_command_line_is_for_pools_without_a_policy(roots: Roots) -> None:
    pools = assigned(TWO_PFS, pool("vf"))
    asked = allocator(roots, pools, policy=AllocationPolicy.SPREAD)
    assert await asked.prefer(VF, FOUR, (), 2) == (A, "0000:3b:0a.0")


async def test_spread_counts_the_devices_that_pods_hold(roots: Roots) -> None:
    pools = assigned(TWO_PFS, pool("vf"), held=held("vf", A))
    asked = allocator(roots, pools, policy=AllocationPolicy.SPREAD)
    assert await asked.prefer(VF, FOUR[1:], (), 1) == ("0000:3b:0a.0",)


async def test_for_an_unknown_pool_the_required_devices_are_preferred(roots: Roots) -> None:
    assert await allocator(roots).prefer("intel.com/x", (A, B), (B,), 2) == (B,)


def named_nodes(roots: Roots) -> dict[str, list[str]]:
    """Device -> the host's nodes that the pool's CDI spec has for it."""
    (path,) = roots.cdi.glob("*")
    return {
        device["name"]: [n["hostPath"] for n in device["containerEdits"]["deviceNodes"]]
        for device in json.loads(path.read_bytes())["devices"]
    }


def known_as(now: Device, _: tuple[Device, ...]) -> tuple[Device, ...]:
    """A device that is read anew."""
    return (now,)


async def test_a_cdi_entry_is_up_to_date_when_its_device_is_allocated_and_then_stays_the_same(
    roots: Roots,
) -> None:
    specs = CdiSpecs(roots, on=True)
    file = pool("vf")
    for held_before, group in (
        (AllocatedDevices(complete=True), 31),
        (held("vf", vfio(A, 0, 21)), 41),
    ):
        pools = assigned(host(PF0, vfio(A, 0, 21), vfio(B, 1, 22)), file, held=held_before)
        await specs.write(pools)
        refresh = partial(known_as, vfio(A, 0, group))
        made = allocator(roots, pools, refresh=refresh, cdi="field", specs=specs)
        assert (await made.allocate(VF, (A,))).cdi_devices == (f"intel.com/net-pci={A}",)
        given = {A: ["/dev/vfio/vfio", f"/dev/vfio/{group}"], B: ["/dev/vfio/vfio", "/dev/vfio/22"]}
        assert named_nodes(roots) == given
        await specs.write(
            attrs.evolve(pools, held=AllocatedDevices({A: PodOwner(VF)}, complete=True))
        )
        assert named_nodes(roots) == given


async def test_a_pf_that_got_vfs_since_the_last_scan_is_not_allocated(roots: Roots) -> None:
    spare = pf("0000:3b:00.1", "pf1")
    made = allocator(
        roots,
        assigned(host(spare), pool("vf")),
        refresh=lambda _: (attrs.evolve(spare, num_vfs=2),),
    )
    with pytest.raises(DeviceNotUsableError, match="now has VFs"):
        await made.allocate(VF, (spare.id,))
    assert info_files(roots) == {}


@pytest.mark.parametrize(
    ("now", "selectors", "error"),
    [
        ({"pkey": 0xFFFF}, {"pKeys": ["0x8001"]}, "pKeys: P_Key 0xffff, wanted 0x8001"),
        ({"device": "1889"}, {"devices": ["154c"]}, "devices: .*1889.*, wanted 154c"),
        ({"vendor": "15b3"}, {"vendors": ["8086"]}, "vendors: .*15b3.*, wanted 8086"),
        ({"acpi_index": "2"}, {"acpiIndexes": ["1"]}, "acpiIndexes: .*2.*, wanted 1"),
    ],
)
async def test_a_device_of_which_a_selected_fact_changed_is_refused_and_scanned_again(
    roots: Roots, now: dict[str, Any], selectors: dict[str, object], error: str
) -> None:
    facts: dict[str, Any] = {"pkey": 0x8001, "acpi_index": "1"}
    known = vf(A, IB, 0, rdma=(RdmaDevice("mlx5_1"),), **facts)
    pools = assigned(host(IB, known), pool("vf", selectors))
    bus = Bus()
    changes: list[HostChanged] = []
    bus.on(HostChanged, changes.append)
    asked = allocator(roots, pools, refresh=lambda _: (attrs.evolve(known, **now),), bus=bus)
    with pytest.raises(DeviceNotUsableError, match=error):
        await asked.allocate(VF, (A,))
    assert [hint.touched for hint in changes] == [frozenset({A})]


async def test_a_selected_fact_that_is_hidden_does_not_cause_a_refusal(roots: Roots) -> None:
    known = vf(A, IB, 0, pkey=0x8001, rdma=(RdmaDevice("mlx5_1"),))
    pools = assigned(host(IB, known), pool("vf", {"pKeys": ["0x8001"]}))
    hidden = attrs.evolve(known, pkey=None, rdma=())
    answer = await allocator(roots, pools, refresh=lambda _: (hidden,)).allocate(VF, (A,))
    assert answer.envs


def slow(
    roots: Roots, pools: Pools, confirm: Callable[[tuple[Device, ...]], dict[str, str]]
) -> Allocator:
    """An allocator whose facts cannot be read again."""

    def fails(_: tuple[Device, ...]) -> tuple[Device, ...]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    checks = Checks(held=lambda: pools.held, confirm=confirm)
    return Allocator(roots, Bus(), lambda: pools, fails, checks=checks)


async def test_nodes_that_belong_to_another_function_now_are_not_added(
    roots: Roots,
) -> None:
    asked = slow(roots, PLAIN, lambda _: {B: "its IOMMU group is 77, was 22"})
    with pytest.raises(DeviceNotUsableError, match=f"{B}: changed .* group is 77, was 22"):
        await asked.allocate(VF, (A, B))
    assert (await slow(roots, PLAIN, lambda _: {}).allocate(VF, (A, B))).nodes


async def test_nodes_that_cannot_be_confirmed_are_not_added(roots: Roots) -> None:
    def fails(_: tuple[Device, ...]) -> dict[str, str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(DeviceNotUsableError, match="sysfs does not answer"):
        await slow(roots, PLAIN, fails).allocate(VF, (A,))
    plain = assigned(host(PF0, vf(A, PF0, 0)), pool("vf"))
    assert (await slow(roots, plain, fails).allocate(VF, (A,))).envs


SHARED = host(PF0, vfio(A, 0, 21), vfio(B, 1, 21))


async def test_two_functions_of_one_iommu_group_go_to_one_container(roots: Roots) -> None:
    answer = await allocator(roots, assigned(SHARED, pool("vf"))).allocate(VF, (A, B))
    assert [n.host_path for n in answer.nodes] == ["/dev/vfio/vfio", "/dev/vfio/21"]


@pytest.mark.parametrize("shares", [False, True])
async def test_a_group_mate_of_a_new_allocation_is_refused_unless_its_pool_shares_groups(
    roots: Roots,
    shares: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    pools = assigned(SHARED, pool("vf", shareIommuGroup=shares))
    newest = AllocatedDevices({A: PodOwner(VF)})
    asked = Allocator(
        roots, Bus(), lambda: pools, lambda devices: devices, checks=Checks(held=lambda: newest)
    )
    if shares:
        assert (await asked.allocate(VF, (B,))).nodes
    else:
        with pytest.raises(DeviceNotUsableError, match=f"shares IOMMU group 21 with {A}"):
            await asked.allocate(VF, (B,))


async def test_of_two_simultaneous_allocations_one_gets_the_iommu_group(roots: Roots) -> None:
    pools, bus = assigned(SHARED, pool("vf")), Bus()
    given = noted(bus)

    def newest() -> AllocatedDevices:
        return AllocatedDevices({i: PodOwner(VF) for event in given for i in event.device_ids})

    asked = Allocator(
        roots, bus, lambda: pools, lambda devices: devices, checks=Checks(held=newest)
    )
    answers = await asyncio.gather(
        asked.allocate(VF, (A,)), asked.allocate(VF, (B,)), return_exceptions=True
    )
    assert [type(a) for a in answers].count(Allocation) == 1
    assert [type(a) for a in answers].count(DeviceNotUsableError) == 1


async def test_a_node_that_disappeared_since_the_last_scan_is_not_added(roots: Roots) -> None:
    seen = HostNodes(is_seen=True, names=frozenset({"vfio/vfio", "vfio/21"}))
    node = attrs.evolve(host(PF0, vfio(A, 0, 21)), nodes=seen)
    pools = assigned(node, pool("vf"))

    def look(known: HostNodes, names: frozenset[str]) -> HostNodes:
        assert names == {"vfio/vfio", "vfio/21"}
        return attrs.evolve(known, names=known.names - {"vfio/21"})

    checks = Checks(held=lambda: pools.held, look=look)
    asked = Allocator(roots, Bus(), lambda: pools, lambda devices: devices, checks=checks)
    with pytest.raises(DeviceNotUsableError, match="the host has no device node /dev/vfio/21"):
        await asked.allocate(VF, (A,))


async def test_devices_that_look_broken_are_preferred_last(roots: Roots) -> None:
    """A VF whose driver made no netdev, and one that came back too soon, for a while."""
    bus = Bus()
    names = tuple(f"0000:3b:02.{i}" for i in range(3))
    orphan, *sound = (vf(name, PF0, i, driver="iavf") for i, name in enumerate(names))
    broken = attrs.evolve(orphan, netdevs=())
    whole = [attrs.evolve(d, netdevs=(Netdev(f"v{d.index}"),)) for d in sound]
    at = allocator(roots, assigned(host(PF0, broken, *whole), pool("vf")), bus=bus)
    assert await at.prefer(VF, names, (), 1) == (names[1],)
    now = asyncio.get_running_loop().time()
    bus.publish(DevicesResting({names[1]: now + 60}))
    assert await at.prefer(VF, names, (), 1) == (names[2],)
    assert await at.prefer(VF, names, (), 2) == names[1:]
    assert await at.prefer(VF, names, (), 3) == names
    bus.publish(DevicesResting({names[1]: now - 1}))
    assert await at.prefer(VF, names, (), 1) == (names[1],)


async def test_a_device_that_is_refused_as_unusable_is_published(roots: Roots) -> None:
    bus = Bus()
    refused: list[DevicesReturned] = []
    bus.on(DevicesReturned, refused.append)
    at = allocator(roots, bus=bus, refresh=lambda devices: devices[:1])
    with pytest.raises(DeviceNotUsableError):
        await at.allocate(VF, (A, B))
    with pytest.raises(UnknownDeviceError):
        await at.allocate(VF, ("x",))
    assert refused == [DevicesReturned(VF, (B,))]


@pytest.mark.looptime
async def test_a_device_that_kubelet_offers_again_soon_after_its_allocation_was_freed(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_purpose: str, _path: object, work: Callable[[], Any], **_: object) -> object:
        return work()

    monkeypatch.setattr(blocking, "call", at_once)  # threads know nothing of virtual time
    bus = Bus()
    returned: list[DevicesReturned] = []
    bus.on(DevicesReturned, returned.append)
    at = allocator(roots, bus=bus)
    await at.allocate(VF, (A,))
    await at.prefer(VF, (A, B), (A,), 2)
    assert returned == []
    await at.prefer(VF, (A, B), (), 1)
    await at.prefer(VF, (A, B), (), 1)
    assert returned == [DevicesReturned(VF, (A,))]
    await at.allocate(VF, (B,))
    await asyncio.sleep(SHORT_LIFE_S)
    await at.prefer(VF, (A, B), (), 1)
    assert len(returned) == 1


async def test_a_group_is_refused_while_another_allocation_of_it_is_being_written(
    roots: Roots,
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    class Waits(GivenRecord):
        async def add(self, resource: str, device_ids: Iterable[str]) -> None:
            begun.set()
            await go.wait()
            await super().add(resource, device_ids)

    pools = assigned(SHARED, pool("vf"))
    asked = Allocator(roots, Bus(), lambda: pools, lambda devices: devices, given=Waits(roots))
    first = asyncio.create_task(asked.allocate(VF, (A,)))
    await begun.wait()
    with pytest.raises(DeviceNotUsableError, match="IOMMU group 21 is being given"):
        await asyncio.wait_for(asked.allocate(VF, (B,)), 20)
    go.set()
    assert (await first).nodes

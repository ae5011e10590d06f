from __future__ import annotations

import attrs
import pytest

from agent.model.device import Netdev, RdmaDevice, VdpaDevice
from agent.model.link import LinkFact, Links
from agent.model.nodes import HostNodes
from agent.rpc.agent import v1
from agent.status.explain import explain
from agent.status.state import AgentState
from tests.support.devices import host, pf, vf
from tests.support.moment import moment
from tests.support.pools import held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
UPLINK = pf("0000:18:00.0", "eno1", netdevs=(Netdev("eno1", 2),))
VF0 = vf("0000:3b:02.0", PF0, 0, netdevs=(Netdev("pf0v0", 9, "ether", admin_up=False),))
VF1 = vf("0000:3b:02.1", PF0, 1, driver="vfio-pci")
NODE = attrs.evolve(host(UPLINK, PF0, VF0, VF1), default_route_netdevs=("eno1",))
NET = pool("net", {"vendors": ["8086"], "drivers": ["iavf"]})
DPDK = pool("dpdk", {"pfNames": ["pf0#7"]}, {"drivers": ["vfio-pci"]})
LATE = pool("late", {"drivers": ["iavf", "vfio-pci"]})
STATE = moment(NODE, NET, DPDK, LATE)


def device(subject: str, state: AgentState = STATE) -> v1.DeviceExplanation:
    found = explain(subject, state).device
    assert found is not None
    return found


def of_pool(subject: str, state: AgentState = STATE) -> v1.PoolExplanation:
    found = explain(subject, state).pool
    assert found is not None
    return found


def verdict(subject: str, resource: str) -> v1.PoolVerdict:
    return next(p for p in device(subject).pools if p.resource == resource)


@pytest.mark.parametrize("subject", ["0000:3b:02.0", "3b:02.0", "0000:3B:02.0", "pf0v0"])
def test_a_device_is_known_by_its_address_in_any_spelling_and_by_its_netdev(subject: str) -> None:
    assert device(subject).summary == "selected by intel.com/net"


def test_every_pool_has_each_selectors_verdict_in_order() -> None:
    (one,) = verdict(VF1.id, "intel.com/net").objects
    assert one.verdicts == [
        v1.SelectorVerdict("vendors", "8086", "vendor 8086", passed=True),
        v1.SelectorVerdict("drivers", "iavf", "driver vfio-pci", passed=False),
    ]
    assert one.outcome == "drivers: driver vfio-pci, wanted iavf"


def test_every_selector_object_has_its_own_verdict_counted_from_one() -> None:
    chosen = verdict(VF1.id, "intel.com/dpdk")
    assert chosen.chosen
    assert [(o.selector_object, o.outcome) for o in chosen.objects] == [
        (1, "pfNames: pf0#1, wanted pf0#7"),
        (2, "matches"),
    ]


def test_the_explanation_of_a_device_names_the_earlier_pool_that_has_it() -> None:
    assert verdict(VF0.id, "intel.com/late").outcome == "taken by the earlier pool intel.com/net"


def test_the_explanation_of_a_guarded_device_says_how_the_host_uses_it() -> None:
    state = moment(NODE, pool("any"))
    told = device(UPLINK.id, state)
    assert told.in_use == "eno1 carries the default route"
    assert '"allowInUse": true would override' in told.summary


def test_an_unhealthy_device_has_cause_text_and_date() -> None:
    links = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    told = device(VF0.id, moment(NODE, NET, links=links, changed_at={VF0.id: 9.0}))
    assert told.device is not None
    assert (told.device.health, told.device.cause, told.device.since) == (
        "Unhealthy",
        "no carrier",
        9,
    )
    assert told.health_detail == "PF pf0 has no carrier"


def test_the_pod_that_holds_a_device_is_shown() -> None:
    told = device(VF0.id, moment(NODE, NET, held=held("net", VF0)))
    assert told.summary == "selected by intel.com/net; held by pod default/pod"
    assert told.device is not None
    assert told.device.holder == v1.Holder("intel.com/net", "pod", "default", "main")


def test_known_facts_are_shown() -> None:
    rich = attrs.evolve(
        VF1,
        numa_node=1,
        iommu_group=42,
        uio=("uio0",),
        rdma=(RdmaDevice("mlx5_2"),),
        pkey=0xFFFF,
        vdpa=(VdpaDevice("vdpa0", "vhost"),),
        ddp_profile="GTPv1",
        acpi_index="3",
        representor="pf0vf1",
    )
    told = device(VF1.id, moment(host(PF0, rich)))
    assert {f.name: f.value for f in told.facts} == {
        "kind": "netDevice",
        "role": "VF",
        "vendor:device": "8086:154c",
        "class": "0x020000",
        "driver": "vfio-pci",
        "NUMA node": "1",
        "PF": "pf0 (0000:3b:00.0), index 1",
        "IOMMU group": "42",
        "uio": "uio0",
        "RDMA": "mlx5_2",
        "P_Key": "0xffff",
        "vDPA": "vdpa0 (vhost)",
        "DDP profile": "GTPv1",
        "representor": "pf0vf1",
        "ACPI index": "3",
    }


def test_netdevs_are_shown_with_their_latest_state() -> None:
    facts = {f.name: f.value for f in device(VF0.id).facts}
    assert facts["netdev"] == "pf0v0 (ether, administratively down)"


@pytest.mark.parametrize("subject", ["intel.com/net", "net"])
def test_a_pool_is_known_by_its_resource_and_by_its_name(subject: str) -> None:
    told = of_pool(subject)
    assert told.pool is not None
    assert told.pool.resource == "intel.com/net"
    assert told.summary == "1 device, 1 healthy"
    assert [m.id for m in told.members] == [VF0.id]
    assert told.overlaps == [v1.Overlap("intel.com/net", "intel.com/late", 1)]


def test_advice_on_an_empty_pool_has_what_kubelet_shows_and_the_reason() -> None:
    told = of_pool("empty", moment(NODE, pool("empty", {"vendors": ["15b3"]})))
    assert told.summary == "no devices: it is not registered with kubelet"
    assert told.pool is not None
    assert told.pool.why_empty


def test_a_pool_without_a_stream_says_so() -> None:
    other = moment(NODE, pool("other", {"vendors": ["8086"]})).servers
    told = of_pool("net", moment(NODE, NET, servers=other))
    assert told.summary.endswith("kubelet does not follow the list, so it counts none of them")


def test_held_and_unhealthy_devices_are_counted_in_the_summary() -> None:
    links = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    told = of_pool("net", moment(NODE, NET, links=links, held=held("net", VF0)))
    assert told.summary == "1 device, 0 healthy, 1 held by pods, 1 unhealthy: no carrier"


def test_a_name_in_two_prefixes_is_not_guessed() -> None:
    state = moment(NODE, NET, pool("net", {"drivers": ["vfio-pci"]}, resourcePrefix="b.org"))
    found = explain("net", state)
    assert found.pool is None
    assert found.near == ["intel.com/net", "b.org/net"]


@pytest.mark.parametrize(
    ("subject", "near"),
    [
        ("0000:3b:02.9", "0000:3b:02.0"),
        ("intel.com/nte", "intel.com/net"),
        ("dkpd", "intel.com/dpdk"),
    ],
)
def test_an_unknown_subject_gets_the_nearest_names(subject: str, near: str) -> None:
    found = explain(subject, STATE)
    assert found.device is None
    assert found.pool is None
    assert near in found.near


def test_for_a_subject_without_similar_names_the_pools_are_listed() -> None:
    assert explain("zzzzzz", STATE).near == ["intel.com/net", "intel.com/dpdk", "intel.com/late"]


def test_a_subject_longer_than_any_name_is_compared_with_nothing() -> None:
    assert explain(f"{VF0.id}{'0' * 200}", STATE).near == explain("zzzzzz", STATE).near


def test_the_explanation_of_a_function_of_another_class_has_the_class_and_how_to_select_it() -> (
    None
):
    node = attrs.evolve(
        host(PF0), passed_over=(("0000:6b:00.1", 0x0B4000), ("0000:00:01.0", 0x060400))
    )
    state = moment(node, NET)
    assert explain("6b:00.1", state).note == (
        "0000:6b:00.1 is skipped because of its PCI class 0x0b40 (co-processor, such as a crypto "
        'engine): a pool has it with "deviceType": "accelerator" and "classes": ["0b40"] in its '
        "selectors"
    )
    assert explain("0000:00:01.0", state).note == (
        "0000:00:01.0 is skipped because of its PCI class 0x0604 (bridge): no pool can have it"
    )


def test_the_reason_why_a_device_is_allocated_last_is_among_its_facts() -> None:
    """It lost its netdev, or came back too soon and others are preferred for a while."""
    lost = attrs.evolve(VF0, netdevs=())
    broken = moment(attrs.evolve(NODE, devices=(UPLINK, PF0, lost, VF1)), NET, DPDK, LATE)
    facts = {f.name: f.value for f in device(VF0.id, broken).facts}
    assert facts["given last"].startswith("has the driver iavf but no network interface")
    resting = attrs.evolve(STATE, resting={VF0.id: 41.0})
    facts = {f.name: f.value for f in device(VF0.id, resting).facts}
    assert facts["given last"].endswith("other devices are preferred for 41 s")
    assert "given last" not in {f.name for f in device(VF0.id).facts}


def test_device_nodes_are_named_or_the_one_that_the_host_lacks() -> None:
    on_vfio = attrs.evolve(VF1, iommu_group=42)
    snapshot = host(PF0, on_vfio)
    lacking = HostNodes(is_seen=True, names=frozenset({"vfio/vfio"}))
    told = [
        {f.name: f.value for f in device(VF1.id, moment(node, DPDK)).facts}["device nodes"]
        for node in (snapshot, attrs.evolve(snapshot, nodes=lacking))
    ]
    assert told == [
        "/dev/vfio/vfio, /dev/vfio/42",
        "none: the host has no device node /dev/vfio/42",
    ]


def test_the_others_in_an_iommu_group_are_named() -> None:
    mates = [attrs.evolve(v, driver="vfio-pci", iommu_group=42) for v in (VF0, VF1)]
    told = device(VF1.id, moment(host(PF0, *mates)))
    facts = {f.name: f.value for f in told.facts}
    assert facts["IOMMU group"] == f"42, shared with {VF0.id}"

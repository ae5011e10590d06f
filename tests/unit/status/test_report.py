from __future__ import annotations

import attrs
import pytest

from agent.config.watcher import ConfigStatus
from agent.health.pool_health import assess_pool
from agent.health.verdict import Cause, Health
from agent.model.device import Netdev
from agent.model.link import LinkFact, Links
from agent.rpc.agent import v1
from agent.status.report import status
from agent.status.state import AgentState, ScanStatus
from tests.support.devices import host, pf, vf
from tests.support.moment import LOOP_S, NOW, moment, server
from tests.support.pools import held, pool

NET = "intel.com/net"
UP = Netdev("pf0", 4, "ether", admin_up=True, carrier=True, operstate="up", speed_mbps=25000)
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2, netdevs=(UP,), numa_node=1)
UPLINK = pf("0000:18:00.0", "eno1", netdevs=(Netdev("eno1", 2),))
VF0, VF1 = (vf(f"0000:3b:02.{i}", PF0, i) for i in range(2))
NODE = attrs.evolve(host(UPLINK, PF0, VF0, VF1), default_route_netdevs=("eno1",))
CHOSEN = pool("net", {"pfNames": ["pf0"]})


def devices(state: AgentState) -> dict[str, v1.Device]:
    return {d.id: d for d in status(state, devices=True).devices}


def test_the_first_line_has_version_process_uptime_and_readiness() -> None:
    state = attrs.evolve(moment(NODE, CHOSEN), scan=ScanStatus(3, 0.0123))
    told = status(state)
    assert (told.version, told.pid, told.node) == ("1.2.3", 42, "node-1")
    assert (told.started_at, told.now, told.ready) == (NOW - 60, NOW, True)
    assert told.scan == v1.Scan(number=3, took_ms=12.3, functions=4)
    assert told.devices == []


def test_missing_items_and_the_state_of_the_file_are_reported() -> None:
    config = ConfigStatus("f", True, "bad comma", ("intel.com/x",), reloads=2, failures=1)
    told = status(attrs.evolve(moment(NODE, CHOSEN, servers=()), config=config))
    assert told.missing == [f"{NET} (2 devices): is not served yet"]
    assert told.config == v1.ConfigStatus(
        path="f",
        in_force=True,
        rejected="bad comma",
        pools=1,
        refused=["intel.com/x"],
        reloads=2,
        failures=1,
    )


def test_a_pool_has_its_counts_its_funnel_and_its_server() -> None:
    (told,) = status(moment(NODE, CHOSEN, held=held("net", VF1))).pools
    assert (told.resource, told.device_type) == (NET, "netDevice")
    assert (told.devices, told.healthy, told.held) == (2, 2, 1)
    assert told.funnel[0] == v1.FunnelStep(0, "kind", "netDevice", 4)
    assert told.funnel[2] == v1.FunnelStep(1, "pfNames", "pf0", 2)
    assert told.server is not None
    assert told.server.stream_live
    assert told.server.since == NOW - 10


def test_an_empty_pool_has_the_reason_and_no_server() -> None:
    (told,) = status(moment(NODE, pool("net", {"drivers": ["vfio-pci"]}))).pools
    assert told.server is None
    assert "leaves none of 3 functions" in told.why_empty[0]


def test_unhealthy_devices_are_counted_by_cause() -> None:
    state = moment(NODE, CHOSEN)
    made = state.pools.pools[0]
    down = {VF0.id: Health(Cause.DRIVER, "d"), VF1.id: Health(Cause.PF_DOWN, "p")}
    pool_health = assess_pool(None, made, state.pools, Links(), LOOP_S, down)
    (told,) = status(attrs.evolve(state, pools_health={NET: pool_health})).pools
    assert told.healthy == 0
    assert told.causes == [v1.CauseCount("PF down", 1), v1.CauseCount("driver", 1)]


def test_pfs_have_link_speed_title_and_use_by_the_host() -> None:
    told = status(moment(NODE), title=lambda vendor, device: f"{vendor}/{device}").pfs
    assert [(p.address, p.name, p.link, p.in_use) for p in told] == [
        ("0000:18:00.0", "eno1", "unknown", "eno1 carries the default route"),
        ("0000:3b:00.0", "pf0", "up", ""),
    ]
    assert told[1] == v1.Pf(
        address="0000:3b:00.0",
        name="pf0",
        link="up",
        speed_mbps=25000,
        vendor="8086",
        device="1572",
        title="8086/1572",
        driver="i40e",
        numa_node=1,
        num_vfs=2,
        total_vfs=64,
    )


@pytest.mark.parametrize(
    ("fact", "link"),
    [
        (LinkFact(4, "pf0", admin_up=True, carrier=False), "down"),
        (LinkFact(4, "pf0", admin_up=False), "admin down"),
        (LinkFact(4, "pf0", gone=True), "no netdev"),
        (LinkFact(4, "renamed", admin_up=True, carrier=True), "up"),
    ],
)
def test_the_latest_netlink_message_on_a_pf_counts(fact: LinkFact, link: str) -> None:
    assert status(moment(NODE, links=Links().with_fact(fact))).pfs[1].link == link


def test_a_device_has_its_pool_its_health_and_the_time_of_the_last_change() -> None:
    links = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    state = moment(NODE, CHOSEN, links=links, changed_at={VF0.id: 5.0})
    assert devices(state)[VF0.id] == v1.Device(
        id=VF0.id,
        role="VF",
        pf=PF0.id,
        index=0,
        driver="iavf",
        pool=NET,
        health="Unhealthy",
        cause="no carrier",
        since=5.0,
    )
    assert devices(state)[VF1.id].since is None


def test_a_device_has_the_pod_that_holds_it() -> None:
    holder = devices(moment(NODE, CHOSEN, held=held("net", VF1)))[VF1.id].holder
    assert holder == v1.Holder(NET, "pod", "default", "main")


def test_a_held_device_that_no_longer_exists_is_listed() -> None:
    gone = held("net", vf("0000:3b:02.7", PF0, 7))
    told = devices(moment(NODE, CHOSEN, held=gone))["0000:3b:02.7"]
    assert (told.pool, told.health, told.cause) == (NET, "Unhealthy", "device gone")


def test_devices_in_no_pool_have_plain_reasons() -> None:
    told = devices(moment(NODE, CHOSEN))
    assert (told[PF0.id].refusal, told[PF0.id].health) == ("has-vfs", "")
    assert told[UPLINK.id].refusal == "in-use"


def test_an_empty_agent_has_a_status() -> None:
    assert status(AgentState(), devices=True).ready is False


def test_overlaps_are_shown() -> None:
    state = moment(NODE, CHOSEN, pool("late", {"drivers": ["iavf"]}))
    assert status(state).overlaps == [v1.Overlap(NET, "intel.com/late", 2)]


def test_a_server_that_never_registered_has_empty_fields() -> None:
    lone = server(NET, registered_by=None, stream_live=False, socket=None, last_error=None)
    (told,) = status(moment(NODE, CHOSEN, servers=(lone,))).pools
    assert told.server is not None
    assert (told.server.registered_by, told.server.socket, told.server.last_error) == ("", "", "")


def test_a_device_that_is_allocated_last_has_the_reason_once_the_holders_are_known() -> None:
    state = moment(NODE, CHOSEN)
    known = attrs.evolve(state.pools.held, complete=True)
    told = attrs.evolve(state, pools=attrs.evolve(state.pools, held=known))
    assert "no pod holds it" in devices(told)[VF0.id].given_last
    assert devices(state)[VF0.id].given_last == ""

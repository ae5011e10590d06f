from __future__ import annotations

import io

import attrs

from agent.cli.console import Screen
from agent.cli.status import holder_text, show
from agent.config.watcher import ConfigStatus
from agent.model.device import Netdev
from agent.model.link import LinkFact, Links
from agent.rpc.agent import v1
from agent.status.report import status
from agent.status.state import AgentState, ScanStatus
from tests.support.devices import host, pf, vf
from tests.support.moment import NOW, moment, server
from tests.support.pools import held, pool

UP = Netdev("pf0", 4, "ether", admin_up=True, carrier=True, operstate="up", speed_mbps=25000)
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2, netdevs=(UP,), numa_node=1)
UPLINK = pf("0000:18:00.0", "eno1", netdevs=(Netdev("eno1", 2),))
VF0, VF1 = (vf(f"0000:3b:02.{i}", PF0, i) for i in range(2))
NODE = attrs.evolve(host(UPLINK, PF0, VF0, VF1), default_route_netdevs=("eno1",))
NET = pool("net", {"pfNames": ["pf0"]})
STATE = attrs.evolve(
    moment(NODE, NET, held=held("net", VF1)), scan=ScanStatus(2, 0.0042), netlink="open"
)


_DOWN = ("Unhealthy", "(no", "carrier)")


def shown(state: AgentState, *, devices: bool = False) -> str:
    out = io.StringIO()
    show(status(state, devices=True), Screen(out), devices=devices)
    return out.getvalue()


def test_the_status_of_a_healthy_node_has_its_tables() -> None:
    assert shown(STATE) == (
        "sriov-agent 1.2.3, process 42 on node-1, up 60s: ready\n"
        "configuration /etc/pcidp/config.json: loaded, 1 pools\n"
        "last scan: 4 functions in 4.2 ms\n"
        "\n"
        "POOL           DEVICES  HEALTHY  ALLOCATED  KUBELET              SINCE  CAUSES\n"
        "intel.com/net  2        2        1          connected (watcher)  10s    -\n"
        "\n"
        "PF    ADDRESS       LINK     VFS   NUMA  DRIVER  DEVICE     IN USE BY THE HOST\n"
        "eno1  0000:18:00.0  unknown  0/64  -     i40e    8086:1572  "
        "eno1 carries the default route\n"
        "pf0   0000:3b:00.0  up 25G   2/64  1     i40e    8086:1572  -\n"
    )


def test_the_devices_are_listed_on_request() -> None:
    down = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    state = moment(NODE, NET, held=held("net", VF1), links=down, changed_at={VF0.id: NOW - 7200.0})
    table = shown(state, devices=True).partition("\n\nDEVICE")[2].splitlines()[1:]
    assert [line.split() for line in table] == [
        ["0000:18:00.0", "PF", "-", "in-use", "-", "-", "-"],
        ["0000:3b:00.0", "PF", "-", "has-vfs", "-", "-", "-"],
        [VF0.id, "VF", f"{PF0.id}#0", "intel.com/net", *_DOWN, "2h", "-"],
        [VF1.id, "VF", f"{PF0.id}#1", "intel.com/net", *_DOWN, "-", "default/pod", "(main)"],
    ]


def test_missing_items_and_details_come_first() -> None:
    rejected = ConfigStatus("f", in_force=True, rejected="f:1: bad comma")
    text = shown(attrs.evolve(STATE, config=rejected, servers=()))
    assert text.splitlines()[0].endswith("not ready")
    assert text.splitlines()[1] == "missing: intel.com/net (2 devices): is not served yet"
    assert text.splitlines()[2].startswith("detail: the configuration file is invalid")


def test_the_reason_for_an_empty_pool_is_below_the_table() -> None:
    text = shown(moment(NODE, pool("dpdk", {"drivers": ["vfio-pci"], "pfNames": ["pf9"]})))
    assert "intel.com/dpdk  0        0        0          not served  -      -" in text
    assert "intel.com/dpdk is empty: pfNames pf9 leaves none of 3 functions" in text
    assert "intel.com/dpdk: drivers: no netDevice here is bound" in text


def test_the_state_of_kubelets_stream_is_shown_in_words() -> None:
    lone = server("intel.com/net", stream_live=False)
    failing = server("intel.com/net", stream_live=False, registered_by=None, last_error="refused")
    assert "registered, no stream" in shown(attrs.evolve(STATE, servers=(lone,)))
    text = shown(attrs.evolve(STATE, servers=(failing,)))
    assert "not registered" in text
    assert text.splitlines()[6].endswith("refused")


def test_overlaps_are_shown() -> None:
    text = shown(moment(NODE, NET, pool("late", {"drivers": ["iavf"]})))
    assert "devices of intel.com/net that intel.com/late matches too: 2" in text


def test_a_holder_is_a_pod_or_one_that_is_being_started() -> None:
    assert holder_text(v1.Holder("r", "pod", "ns", "main")) == "ns/pod (main)"
    assert holder_text(v1.Holder("r")) == "a pod that is being started"
    assert holder_text(None) == ""

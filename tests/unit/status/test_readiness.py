from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.config.watcher import ConfigStatus
from agent.model.plugin_events import PoolServerState
from agent.status.readiness import Readiness, readiness
from agent.status.state import AgentState, ScanStatus
from tests.support.devices import host, pf, vf
from tests.support.moment import moment, server
from tests.support.pools import pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
NODE = host(PF0, *(vf(f"0000:3b:02.{i}", PF0, i) for i in range(2)))
NET = "intel.com/net"
READY = moment(NODE, pool("net", {"pfNames": ["pf0"]}))


def missing(**parts: Any) -> tuple[str, ...]:  # noqa: ANN401
    return readiness(attrs.evolve(READY, **parts)).missing


def test_a_pool_with_devices_and_a_live_stream_is_ready() -> None:
    assert readiness(READY) == Readiness()


def test_no_pools_at_all_is_ready() -> None:
    assert readiness(moment(NODE)).ready


def test_a_pool_without_devices_needs_no_stream() -> None:
    assert readiness(moment(NODE, pool("net", {"vendors": ["15b3"]}))).ready


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (None, "is not served yet"),
        (
            server(NET, stream_live=False),
            "is registered, but kubelet has not opened its ListAndWatch stream",
        ),
        (
            server(NET, registered_by=None, stream_live=False, last_error="dial refused"),
            "is not registered with kubelet: dial refused",
        ),
        (
            server(NET, registered_by=None, stream_live=False),
            "is not registered with kubelet",
        ),
    ],
)
def test_a_pool_without_a_stream_is_named_with_the_cause(
    standing: PoolServerState | None, text: str
) -> None:
    servers = (standing,) if standing else ()
    assert missing(servers=servers) == (f"{NET} (2 devices): {text}",)


def test_a_start_is_not_ready_before_the_first_lists() -> None:
    assert readiness(AgentState(config=ConfigStatus("f", in_force=True))).missing == (
        "the first scan of the host has not finished",
    )


def test_without_any_configuration_it_is_not_ready() -> None:
    assert missing(config=ConfigStatus("f")) == ("no valid configuration",)


def test_a_resource_that_another_agent_serves_is_missing_once_with_the_name_of_that_agent() -> None:
    assert missing(servers=(), waiting_for={NET: "pid 7 on node-1"}) == (
        f"{NET}: waiting for another agent that serves it on this node: pid 7 on node-1",
    )


def test_an_agent_that_is_stopping_is_not_ready_although_its_streams_are_open() -> None:
    assert missing(stopping=True) == ("the agent is stopping",)


def test_an_agent_with_an_empty_configuration_is_ready_and_says_why() -> None:
    idle = ConfigStatus("d/config.json", in_force=True, idle="d holds no config.json")
    assert readiness(attrs.evolve(READY, config=idle)) == Readiness(
        details=("d holds no config.json",)
    )


def test_an_agent_whose_scan_hangs_is_not_ready() -> None:
    assert missing(scan=ScanStatus(3, stalled_s=20.0)) == (
        "a scan of the host has been hanging for 20 s",
    )


def test_a_refused_edit_is_a_detail_and_stays_ready() -> None:
    config = ConfigStatus("f", in_force=True, rejected="f:1:2: trailing comma")
    found = readiness(attrs.evolve(READY, config=config))
    assert found.ready
    assert found.details == (
        (
            "the configuration file is invalid, the last valid configuration is used: "
            "f:1:2: trailing comma"
        ),
    )


def test_pools_refused_at_the_start_and_closed_netlink_are_details() -> None:
    config = ConfigStatus("f", in_force=True, refused=("intel.com/bad",))
    found = readiness(attrs.evolve(READY, config=config, netlink="closed"))
    assert found.ready
    assert [d.split()[0:2] for d in found.details] == [
        ["pool", "intel.com/bad"],
        ["kernel", "events"],
    ]


def test_registration_problems_are_one_detail_for_all_pools() -> None:
    servers = tuple(attrs.evolve(s, note="by kubelet.sock") for s in READY.servers)
    told = readiness(attrs.evolve(READY, servers=servers))
    assert told == Readiness(details=("by kubelet.sock",))

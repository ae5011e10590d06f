from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.config.watcher import ConfigStatus
from agent.http.counters import Counters
from agent.http.exposition import exposition, families
from agent.model.device import Netdev
from agent.model.link import LinkFact, Links
from agent.model.traffic import Traffic, VfTraffic
from agent.status.state import AgentState, ScanStatus
from tests.support.devices import host, pf, vf
from tests.support.moment import moment, server
from tests.support.pools import held, pool

NET = "intel.com/net"
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2, netdevs=(Netdev("pf0", 4, admin_up=True, carrier=True),))
VFS = tuple(vf(f"0000:3b:02.{i}", PF0, i, numa_node=1) for i in range(2))
NODE = host(PF0, *VFS)
STATE = moment(NODE, pool("net", {"pfNames": ["pf0"]}), pool("none", {"vendors": ["15b3"]}))

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(
    state: AgentState = STATE, counters: Counters | None = None, traffic: Traffic | None = None
) -> Samples:
    answer = exposition(state, counters or Counters(), traffic)
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_devices_are_counted_by_resource_and_health() -> None:
    links = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    well, ill = scraped(), scraped(attrs.evolve(moment(NODE, pool("net", {}), links=links)))
    gauge = "sriov_agent_devices"
    assert value(well, gauge, resource=NET, health="Healthy") == 2
    assert value(well, gauge, resource=NET, health="Unhealthy") == 0
    assert value(ill, gauge, resource=NET, health="Unhealthy") == 2
    assert value(ill, "sriov_agent_unhealthy_by_cause", resource=NET, cause="no carrier") == 2


def test_only_one_gauge_ends_in_devices_and_its_labels_are_resource_and_health() -> None:
    ends = {
        (n, frozenset(k for k, _ in labels)) for n, labels in scraped() if n.endswith("devices")
    }
    assert ends == {("sriov_agent_devices", frozenset({"resource", "health"}))}


def test_an_empty_pool_is_0_and_its_funnel_shows_the_step() -> None:
    samples = scraped()
    assert value(samples, "sriov_agent_devices", resource="intel.com/none", health="Healthy") == 0
    step = {"resource": "intel.com/none", "selector_object": "1", "position": "2"}
    assert value(samples, "sriov_agent_funnel_functions", **step, step="vendors") == 0


def test_a_stream_that_is_down_is_0() -> None:
    down = attrs.evolve(STATE, servers=(server(NET, stream_live=False),))
    assert value(scraped(), "sriov_agent_stream_up", resource=NET) == 1
    assert value(scraped(down), "sriov_agent_stream_up", resource=NET) == 0
    assert (value(scraped(), "sriov_agent_ready"), value(scraped(down), "sriov_agent_ready")) == (
        1,
        0,
    )


def test_counters_start_at_0_for_each_pool() -> None:
    samples = scraped()
    for name in ("registrations", "registration_failures", "lists_pushed", "allocated_devices"):
        assert value(samples, f"sriov_agent_{name}_total", resource="intel.com/none") == 0
    for result in ("success", "refused"):
        counter = "sriov_agent_allocations_total"
        assert value(samples, counter, resource=NET, result=result) == 0


def test_counters_are_exposed() -> None:
    counters = Counters()
    counters.registrations[NET, "success"] = 3
    counters.transitions[NET, "Unhealthy", "PF down"] = 2
    counters.allocation_s.observe(0.003)
    counters.push_s.observe(0.004)
    counters.scan_s.observe(0.5)
    samples = scraped(counters=counters)
    assert value(samples, "sriov_agent_registrations_total", resource=NET) == 3
    labels = {"resource": NET, "health": "Unhealthy", "cause": "PF down"}
    assert value(samples, "sriov_agent_health_transitions_total", **labels) == 2
    assert value(samples, "sriov_agent_allocation_seconds_count") == 1
    assert value(samples, "sriov_agent_allocation_seconds_bucket", le="0.002") == 0
    assert value(samples, "sriov_agent_allocation_seconds_bucket", le="0.005") == 1
    assert value(samples, "sriov_agent_event_to_push_seconds_sum") == pytest.approx(0.004)
    assert value(samples, "sriov_agent_scan_seconds_bucket", le="+Inf") == 1


def test_the_host_is_shown() -> None:
    state = attrs.evolve(STATE, scan=ScanStatus(2, 0.1, 20.0), netlink="open", overruns=4)
    samples = scraped(state)
    assert value(samples, "sriov_agent_functions", kind="netDevice", role="VF") == 2
    assert value(samples, "sriov_agent_pf_up", pf="pf0", pf_address=PF0.id) == 1
    assert value(samples, "sriov_agent_scan_stalled_seconds") == 20
    assert value(samples, "sriov_agent_netlink_open") == 1
    assert value(samples, "sriov_agent_netlink_overruns_total") == 4
    assert value(samples, "sriov_agent_functions_in_use_by_host") == 0


def test_a_pf_whose_name_is_not_text_is_shown() -> None:
    odd = pf("0000:3b:00.0", "pf\udcff", num_vfs=1)
    samples = scraped(moment(host(odd, vf("0000:3b:02.0", odd, 0)), pool("net")))
    labels = {"pf": "pf\\udcff", "pf_address": "0000:3b:00.0"}
    assert ("sriov_agent_pf_up", frozenset(labels.items())) in samples


def test_the_configuration_is_shown() -> None:
    config = ConfigStatus("f", True, "bad comma", ("intel.com/x",), reloads=2, failures=1)
    samples = scraped(attrs.evolve(STATE, config=config))
    assert value(samples, "sriov_agent_config_reload_success") == 0
    assert value(samples, "sriov_agent_config_reloads_total", result="success") == 2
    assert value(samples, "sriov_agent_config_reloads_total", result="refused") == 1
    assert value(samples, "sriov_agent_config_refused_pools") == 1
    assert value(scraped(), "sriov_agent_config_reload_success") == 1


def test_metrics_have_held_devices_and_the_process() -> None:
    samples = scraped(moment(NODE, pool("net", {}), held=held("net", VFS[0])))
    assert value(samples, "sriov_agent_held", resource=NET) == 1
    assert value(samples, "process_resident_memory_bytes") > 0
    assert value(samples, "sriov_agent_info", version="1.2.3") == 1


def test_vf_traffic_has_the_names_and_labels_of_the_metrics_exporter() -> None:
    state = moment(NODE, pool("net", {}), held=held("net", VFS[0]))
    carried = VfTraffic(1, 2, 3, 4, 5, 6, 7, 8)
    samples = scraped(state, traffic={PF0.id: {0: carried}})
    labels = {"pf": "pf0", "vf": "0", "pciAddr": VFS[0].id, "numa_node": "1"}
    assert {n: v for (n, la), v in samples.items() if la == frozenset(labels.items())} == {
        "sriov_vf_rx_packets": 1,
        "sriov_vf_tx_packets": 2,
        "sriov_vf_rx_bytes": 3,
        "sriov_vf_tx_bytes": 4,
        "sriov_vf_rx_broadcast": 5,
        "sriov_vf_rx_multicast": 6,
        "sriov_vf_rx_dropped": 7,
        "sriov_vf_tx_dropped": 8,
    }
    pod = {"pod": "pod", "namespace": "default", "container": "main"}
    assert value(samples, "sriov_kubepoddevice", pciAddr=VFS[0].id, dev_type=NET, **pod) == 1


def test_counters_that_nobody_counts_are_left_out() -> None:
    carried = VfTraffic(1, 2, 3, 4, None, 6, 7, 8)
    samples = scraped(moment(NODE, pool("net", {})), traffic={PF0.id: {0: carried}})
    names = {name for name, _ in samples if name.startswith("sriov_vf_")}
    assert "sriov_vf_rx_multicast" in names
    assert "sriov_vf_rx_broadcast" not in names


def test_traffic_is_left_out_unless_it_was_requested() -> None:
    names = {name for name, _ in scraped()}
    assert not {n for n in names if n.startswith(("sriov_vf_", "sriov_kubepod"))}


def test_every_metric_explains_itself_in_a_sentence() -> None:
    for family in families(STATE, Counters(), {}):
        assert family.documentation.endswith("."), family.name
        assert len(family.documentation) > 15, family.name

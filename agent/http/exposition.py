"""Writes the metrics in Prometheus' text format; docs/metrics.md is generated from the help texts.

Works on frozen values, so it can run in a thread. Metric names and labels must not change, because
dashboards and alerts use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from agent.attrs_classes import frozen
from agent.http.counters import Counters, Histogram
from agent.http.messages import Answer
from agent.http.traffic import traffic_families
from agent.model.device import Role
from agent.model.traffic import Traffic
from agent.status.printable import legible
from agent.status.readiness import readiness
from agent.status.report import link_of
from agent.status.state import AgentState

_PREFIX = "sriov_agent_"


def exposition(state: AgentState, counters: Counters, traffic: Traffic | None = None) -> Answer:
    """Write all metrics for a state."""
    registry = CollectorRegistry()
    registry.register(_Collector(families(state, counters, traffic)))
    ProcessCollector(registry=registry)
    return Answer(generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)


@frozen(eq=False)
class _Collector:
    """The part of a collector that a registry uses."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics

    def describe(self) -> Iterable[Metric]:
        return ()


def families(
    state: AgentState, counters: Counters, traffic: Traffic | None = None
) -> tuple[Metric, ...]:
    """Every metric with its samples, in the order of the documentation."""
    found = (
        *_agent(state),
        *_pools(state),
        *_kubelet(state, counters),
        *_allocations(state, counters),
        *_host(state, counters),
        *_config(state, counters),
    )
    return (*found, *traffic_families(state, traffic)) if traffic is not None else found


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, text, labels=labels)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(_PREFIX + name, text, labels=labels)


def _histogram(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    return HistogramMetricFamily(
        _PREFIX + name, text, buckets=list(histogram.buckets), sum_value=histogram.sum
    )


def _agent(state: AgentState) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "sriov_agent", "The agent's version; always 1.", value={"version": state.version}
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}ready",
        "1 while /readyz answers 200: the agent has a configuration, and kubelet has opened the "
        "ListAndWatch stream of every pool that has devices.",
        value=float(readiness(state).ready),
    )
    yield CounterMetricFamily(
        f"{_PREFIX}log_lines_dropped",
        "Log lines that were dropped because nothing read standard error.",
        value=state.lines_dropped,
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}hanging_calls",
        "System calls that hang in a file system, for example on a mount whose server is down; "
        "/readyz and the log name the paths.",
        value=len(state.hanging),
    )


def _pools(state: AgentState) -> Iterator[Metric]:
    devices = _gauge(
        "devices",
        "Devices of a pool as reported to kubelet; health is Healthy or Unhealthy. Their sum is "
        "the node's capacity; the healthy ones are allocatable.",
        *("resource", "health"),
    )
    causes = _gauge(
        "unhealthy_by_cause",
        "Unhealthy devices of a pool by cause.",
        *("resource", "cause"),
    )
    held = _gauge(
        "held",
        "Devices of a pool that are allocated to pods, as reported by kubelet or answered by the "
        "agent.",
        "resource",
    )
    funnel = _gauge(
        "funnel_functions",
        "Functions left after each step of a pool's funnel: kind, each selector of each selector "
        "object (from 1), not in use by the host, not in an earlier pool. The step at which it "
        "reaches 0 is why a pool is empty; `sriov-agent explain RESOURCE` gives the details.",
        *("resource", "selector_object", "position", "step"),
    )
    for pool in state.pools.pools:
        pool_health = state.pools_health.get(pool.resource)
        reported = pool_health.state.reported.values() if pool_health else ()
        sick = Counter(str(health.cause) for health in reported if not health.healthy)
        devices.add_metric([pool.resource, "Healthy"], len(reported) - sick.total())
        devices.add_metric([pool.resource, "Unhealthy"], sick.total())
        for cause, count in sorted(sick.items()):
            causes.add_metric([pool.resource, cause], count)
        held.add_metric(
            [pool.resource], len(state.pools.held.of(pool.resource) & pool.by_id.keys())
        )
        for position, step in enumerate(pool.funnel):
            place = [str(step.selector_object + 1), str(position), step.step]
            funnel.add_metric([pool.resource, *place], step.remaining)
    yield from (devices, causes, held, funnel)


def _kubelet(state: AgentState, counters: Counters) -> Iterator[Metric]:
    resources = _resources(state)
    up = _gauge(
        "stream_up",
        "1 while kubelet has the resource's ListAndWatch stream open; at 0 it counts none of its "
        "devices.",
        "resource",
    )
    for server in state.servers:
        up.add_metric([server.resource], float(server.stream_live))
    yield up
    made = _counter(
        "registrations",
        "Number of times kubelet accepted the resource. It grows by one at each start of the agent "
        "or of kubelet; steady growth means that registrations keep becoming invalid.",
        "resource",
    )
    failed = _counter(
        "registration_failures",
        "Failed attempts to register: kubelet was absent or busy, or it refused.",
        "resource",
    )
    pushed = _counter("lists_pushed", "Full device lists sent to kubelet.", "resource")
    changed = _counter(
        "health_transitions",
        "Devices that became Healthy or Unhealthy as reported to kubelet, with the cause. Devices "
        "that join or leave a pool are not counted.",
        *("resource", "health", "cause"),
    )
    for resource in resources:
        made.add_metric([resource], counters.registrations[resource, "success"])
        failed.add_metric([resource], counters.registrations[resource, "failure"])
        pushed.add_metric([resource], counters.pushed[resource])
    for key, count in sorted(counters.transitions.items()):
        changed.add_metric(key, count)
    yield from (made, failed, pushed, changed)
    yield _histogram(
        "event_to_push_seconds",
        "Time from a kernel event (or another sign of a change) until the resulting device list "
        "was sent to kubelet. Recoveries that are delayed on purpose are not counted.",
        counters.push_s,
    )


def _allocations(state: AgentState, counters: Counters) -> Iterator[Metric]:
    answers = _counter(
        "allocations",
        "Containers for which kubelet asked for devices; result is success or refused (the pod "
        "fails).",
        *("resource", "result"),
    )
    devices = _counter("allocated_devices", "Devices given to containers.", "resource")
    for resource in _resources(state):
        for result in ("success", "refused"):
            answers.add_metric([resource, result], counters.allocations[resource, result])
        devices.add_metric([resource], counters.allocated[resource])
    yield from (answers, devices)
    yield _histogram(
        "allocation_seconds",
        "Time to answer an Allocate call. Kubelet admits one pod at a time, so other pods wait.",
        counters.allocation_s,
    )


def _resources(state: AgentState) -> tuple[str, ...]:
    return tuple(pool.resource for pool in state.pools.pools)


def _host(state: AgentState, counters: Counters) -> Iterator[Metric]:
    snapshot = state.pools.snapshot
    functions = _gauge(
        "functions",
        "Functions and auxiliary devices found by the last scan, in pools or not.",
        *("kind", "role"),
    )
    seen = Counter((str(d.kind), str(d.role)) for d in snapshot.devices)
    for labels, count in sorted(seen.items()):
        functions.add_metric(labels, count)
    yield functions
    yield GaugeMetricFamily(
        f"{_PREFIX}functions_in_use_by_host",
        "Functions kept out of pools because the host uses them (default route, bond, bridge, "
        "VLAN).",
        value=len(state.pools.in_use),
    )
    links = _gauge(
        "pf_up", "1 while a PF's link is up; PFs without a netdev on the host are omitted.",
        *("pf", "pf_address"),
    )  # fmt: skip
    for device in snapshot.devices:
        link = link_of(device, state) if device.role is Role.PF else "no netdev"
        if link != "no netdev":
            links.add_metric([legible(device.pf_name or ""), device.id], float(link == "up"))
    yield links
    yield _histogram("scan_seconds", "Time of a full scan of the host.", counters.scan_s)
    yield GaugeMetricFamily(
        f"{_PREFIX}scan_stalled_seconds",
        "How long the current scan has been hanging in a driver; 0 = it does not hang.",
        value=state.scan.stalled_s,
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}netlink_open",
        "1 while the agent receives kernel events; at 0 only the periodic scan sees changes.",
        value=float(state.netlink == "open"),
    )
    yield CounterMetricFamily(
        f"{_PREFIX}netlink_overruns",
        "Number of times the kernel dropped events because a buffer was full; the agent then reads "
        "all state again.",
        value=state.overruns,
    )


def _config(state: AgentState, counters: Counters) -> Iterator[Metric]:
    config = state.config
    yield GaugeMetricFamily(
        f"{_PREFIX}config_reload_success",
        "1 while the agent uses the configuration file in its present form; 0 after an invalid "
        "edit: the agent then uses the last valid configuration.",
        value=float(config.in_force and not config.rejected),
    )
    yield GaugeMetricFamily(
        f"{_PREFIX}config_reload_success_timestamp_seconds",
        "When the agent last loaded a configuration, in seconds since 1970.",
        value=counters.config_loaded_at,
    )
    reloads = _counter("config_reloads", "Edits of the configuration file, by result.", "result")
    reloads.add_metric(["success"], config.reloads)
    reloads.add_metric(["refused"], config.failures)
    yield reloads
    yield GaugeMetricFamily(
        f"{_PREFIX}config_refused_pools",
        "Pools of the configuration that are not served because of their errors.",
        value=len(config.refused),
    )

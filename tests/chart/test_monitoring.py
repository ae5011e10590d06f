"""Alerts and dashboard ask for metrics that exist, in expressions that Prometheus can read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import promql_parser
import pytest
import yaml

from tests.chart.helm import CHART, Helm, one

# The metrics that alerts and dashboard may use, and the labels that each has by itself.
METRICS = {
    "up": {"job"},
    "process_cpu_seconds_total": {"job"},
    "process_resident_memory_bytes": {"job"},
    "sriov_agent_allocation_seconds_count": set[str](),
    "sriov_agent_allocation_seconds_sum": set[str](),
    "sriov_agent_config_reload_success": set[str](),
    "sriov_agent_devices": {"resource", "health"},
    "sriov_agent_event_to_push_seconds_count": set[str](),
    "sriov_agent_event_to_push_seconds_sum": set[str](),
    "sriov_agent_netlink_open": set[str](),
    "sriov_agent_registration_failures_total": {"resource"},
    "sriov_agent_registrations_total": {"resource"},
    "sriov_agent_scan_seconds_count": set[str](),
    "sriov_agent_scan_seconds_sum": set[str](),
    "sriov_agent_scan_stalled_seconds": set[str](),
    "sriov_agent_stream_up": {"resource"},
    "sriov_agent_unhealthy_by_cause": {"resource", "cause"},
}
ALERTS = yaml.safe_load((CHART / "files/alerts.yaml").read_text("utf-8"))
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text("utf-8"))
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """Every selection of a metric in an expression; raises ValueError for one that is none."""
    found: list[promql_parser.VectorSelector] = []

    def look(node: object) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)

    promql_parser.walk(promql_parser.parse(expression), look)
    yield from found


def check(expression: str) -> None:
    used = list(selectors(expression))
    assert used
    for selector in used:
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= METRICS[selector.name or ""] | {"node"}, expression


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_reads_metrics_that_exist_and_says_what_to_do(alert: dict[str, object]) -> None:
    check(str(alert["expr"]))
    assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_reads_metrics_that_exist(title: str) -> None:
    for target in PANELS[title]["targets"]:
        check(target["expr"].replace("$__rate_interval", "5m"))


def test_panels_lie_side_by_side_and_never_overlap() -> None:
    taken = [
        (x, y)
        for panel in PANELS.values()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) == 23
    assert len({panel["id"] for panel in PANELS.values()}) == len(DASHBOARD["panels"])


def test_alerts_watch_the_job_that_the_monitors_name(newest_helm: Helm) -> None:
    values = {
        "nameOverride": "nics",
        "metrics": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    }
    documents = newest_helm.documents(values)
    monitor = one(documents, "PodMonitor")["spec"]
    labels = one(documents, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    rules = one(documents, "PrometheusRule")["spec"]["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [alert["alert"] for alert in ALERTS]
    (down,) = (rule["expr"] for rule in rules if rule["alert"] == "SriovAgentDown")
    assert down == f'up{{job="{labels[monitor["jobLabel"]]}"}} == 0'
    assert monitor["selector"]["matchLabels"].items() <= labels.items()

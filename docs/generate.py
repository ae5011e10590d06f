"""Writes the pages that are made from the code's own tables; with --check, says what is stale."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent.config.reference import Row, pool_rows, selector_rows
from agent.http.counters import Counters
from agent.http.exposition import families
from agent.log_events import EVENTS
from agent.standing.state import AgentState

DOCS = Path(__file__).resolve().parent


def configuration() -> str:
    """docs/configuration.md: every key of the configuration file."""
    return "\n".join(
        [
            "# Configuration reference",
            "",
            '`{"resourceList": [pool, ...]}`, the file of the SR-IOV network device plugin. Keys',
            "match without regard to case; null is absent; an empty list is no filter. Keys marked",
            "with * are extensions. `sriov-agent validate FILE` checks a file.",
            "",
            "## Keys of a pool",
            "",
            *_table(pool_rows()),
            "",
            "## Selectors",
            "",
            "All selectors of an object must hold. A list of objects is tried in order. They stand",
            "here in the order in which a pool's funnel applies them.",
            "",
            *_table(selector_rows()),
            "",
        ]
    )


def _table(rows: Iterable[Row]) -> Iterable[str]:
    yield "| key | device types | meaning | values | example |"
    yield "|---|---|---|---|---|"
    for row in rows:
        star = "*" if row.is_extension else ""
        cells = (f"`{row.key}`{star}", ", ".join(row.kinds), row.meaning, row.allowed)
        yield "| " + " | ".join((*map(_cell, cells), f"`{_cell(row.example)}`")) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def log_events() -> str:
    """docs/log-events.md: every event of the log stream."""
    lines = [
        "# The log stream",
        "",
        "One event a line, on standard error. `--log-format json` writes an object with `time`,",
        "`level` and `event`, then the event's fields; `--log-format text` writes the same as",
        "`time LEVEL event field=value ...`, where values with blanks or odd characters are JSON",
        "strings. `--log-level` takes `debug`, `info`, `warning`, `error`, or a number as klog has",
        "them (4 and more is debug). `sriov-agent watch` and `/events` follow the same events, of",
        "every level whatever the log's is.",
        "",
        "Names and fields are a promise; a field may be left out where there is nothing to say. An",
        "event with the field `times` is said at its first time, then at its 10th, 100th ... with",
        "the count. Nothing is logged while nothing happens. Values of `additionalInfo` are never",
        "logged.",
        "",
        "| event | level | fields | meaning |",
        "|---|---|---|---|",
    ]
    for event in EVENTS.values():
        level = logging.getLevelName(event.level).lower()
        fields = ", ".join(f"`{field}`" for field in event.fields)
        lines.append(f"| `{event.name}` | {level} | {fields} | {_cell(event.meaning)} |")
    return "\n".join([*lines, ""])


def metrics() -> str:
    """docs/metrics.md: every metric."""
    lines = [
        "# Metrics",
        "",
        "`--http-address HOST:PORT` serves them at `/metrics`, in Prometheus' text format. Names",
        "and labels are a promise: alerts and dashboards rest on them. Counters begin at 0 with",
        "the agent; those of a resource are there as soon as its pool is configured.",
        "",
        "The last ones, `sriov_vf_*` and `sriov_kubepoddevice`, come with `--vf-metrics` only.",
        "They have the names and labels of the SR-IOV network metrics exporter, so that its",
        "dashboards work; the counters are the PF driver's own, asked through netlink at each",
        "scrape, and a driver that keeps none tells none.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for family in families(AgentState(), Counters(), {}):
        name, kind = _METRIC_NAMES.get(family.type, "{}").format(family.name), family.type
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        labels = labels or _TRAFFIC_LABELS.get(family.name.startswith("sriov_vf_"), "")
        lines.append(f"| `{name}` | {kind} | {labels} | {_cell(family.documentation)} |")
    lines += [
        "| `process_*` | | | Memory, CPU time, descriptors and start time of the process. |",
        "",
        "Traffic of the pod that has a VF:",
        "",
        "    rate(sriov_vf_rx_bytes[5m]) * on (pciAddr) group_left (pod, namespace)",
        "      sriov_kubepoddevice",
        "",
    ]
    return "\n".join(lines)


_METRIC_NAMES = {"counter": "{}_total", "info": "{}_info"}
_TRAFFIC_LABELS = {True: "`pf`, `vf`, `pciAddr`, `numa_node`"}

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "log-events.md": log_events,
    "metrics.md": metrics,
}


def stale() -> list[str]:
    """Names of pages whose committed text is not what the code makes."""
    return [n for n, make in PAGES.items() if (DOCS / n).read_text() != make()]


def main() -> int:
    """Write, or compare; exit code 1 where a page is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    if parser.parse_args().check:
        for name in stale():
            print(f"stale: docs/{name}: run python docs/generate.py")
        return 1 if stale() else 0
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

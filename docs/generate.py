"""Writes the pages that are made from the code's own tables; with --check, says what is stale."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from agent.cli import schema
from agent.cli.arguments import COMMANDS, build_parser
from agent.config.reference import Row, limit_rows, pool_rows, selector_rows
from agent.events.catalog import catalog
from agent.http.counters import Counters
from agent.http.exposition import families
from agent.status.state import AgentState

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
            "`sriov-agent schema` prints the [JSON Schema](configuration.schema.json) of the file,",
            "which is `agent/configuration.schema.json` of the package. Editors find it by a key",
            '`"$schema"` beside `"resourceList"`; the agent ignores it. The schema accepts the',
            "canonical spelling of a key, and Go's, such as `IsRdma`, which the operator of the Go",
            "plugin writes. The agent accepts more: any letter case, with a hint, and null.",
            "",
            "## Keys of a pool",
            "",
            *_table(pool_rows()),
            "",
            "## Selectors",
            "",
            "A device must match all selectors of an object. Objects of a list are tried in order.",
            "The table has the order in which the agent applies the selectors.",
            "",
            *_table(selector_rows()),
            "",
            "## Limits",
            "",
            "A configuration that exceeds a limit is rejected, with the limit, value and place.",
            "",
            "| what | at most |",
            "|---|---|",
            *(f"| {what} | {most:,} |" for what, most in limit_rows()),
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
        "The agent writes one event per line to standard error. With `--log-format json`, a line",
        "is an object with `time`, `level` and `event`, followed by the fields of the event. With",
        "`--log-format text`, it is `time LEVEL event field=value ...`; a value with spaces or",
        "unusual characters is written as a JSON string. `--log-level` is `debug`, `info`,",
        "`warning`, `error`, or a klog number (4 and higher: debug). `sriov-agent watch` and",
        "`/events` show the same events, of all levels.",
        "",
        "Names and fields are stable. A field without a value is omitted. An event with the field",
        "`times` is logged the first time, then the 10th, 100th ... time with the count. While",
        "nothing changes, nothing is logged. Values of `additionalInfo` are never logged.",
        "",
        "| event | level | fields | meaning |",
        "|---|---|---|---|",
    ]
    for event in catalog().values():
        level = logging.getLevelName(event.level).lower()
        fields = ", ".join(f"`{field}`" for field in event.field_names())
        lines.append(f"| `{event.name}` | {level} | {fields} | {_cell(event.meaning())} |")
    return "\n".join([*lines, ""])


def metrics() -> str:
    """docs/metrics.md: every metric."""
    lines = [
        "# Metrics",
        "",
        "With `--http-address HOST:PORT`, the agent serves metrics at `/metrics` in Prometheus'",
        "text format. Names and labels are stable, so that alerts and dashboards can use them.",
        "Counters start at 0 when the agent starts; those of a resource exist as soon as its pool",
        "is configured.",
        "",
        "The last metrics, `sriov_vf_*` and `sriov_kubepoddevice`, need `--vf-metrics`. They have",
        "the names and labels of the SR-IOV network metrics exporter, so its dashboards work. The",
        "agent reads the counters of the PF driver through netlink at each scrape. If a PF",
        "reports only zeros, as the drivers do that do not count for VFs (for example igb), the",
        "agent shows the counters of the VF's own interface instead, which have no",
        "`rx_broadcast`. This works only for VFs whose interface is on the host; VFs in pods or",
        "with vfio-pci are omitted.",
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


def command_line() -> str:
    """docs/cli.md: every command with its arguments, from the parser of the command line."""
    lines = [
        "# The command line",
        "",
        "    sriov-agent COMMAND [options]",
        "",
        "Without a command, `run` is used. Options may be spelled as for the Go plugin: with one",
        "dash or two, with `=` or a second word, with `--strict=true`. Exit codes: 0 success, or",
        "stopped by a signal; 1 failure, or `status` of an agent that is not ready; 2 invalid",
        "configuration or arguments; 128 + N ended at once by a second stop signal N.",
        "",
        "| command | purpose |",
        "|---|---|",
    ]
    commands = _subcommands(build_parser())
    help_texts = {action.dest: action.help or "" for action in commands._choices_actions}
    lines += [f"| [`{name}`](#{name}) | {_cell(help_texts[name])} |" for name in COMMANDS]
    for name in COMMANDS:
        lines += ["", *_command(name, commands.choices[name])]
    return "\n".join([*lines, ""])


def _subcommands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[_Parser]:
    return next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))


_Parser = argparse.ArgumentParser


def _command(name: str, parser: _Parser) -> Iterator[str]:
    """One command; not argparse's own help, whose form differs from one Python to the next."""
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    shown = [a for a in actions if a.help is not argparse.SUPPRESS]
    words = [f"[{_value(a)}]" if a.nargs else _value(a) for a in shown if not a.option_strings]
    options = ["[options]"] if any(a.option_strings for a in shown) else []
    yield from (f"## {name}", "", f"    {' '.join(['sriov-agent', name, *words, *options])}", "")
    yield parser.description or ""
    rows = [(_spelled(a), _cell(_meaning(a))) for a in shown if _meaning(a)]
    if rows:
        yield from ("", "| argument | meaning |", "|---|---|")
        yield from (f"| `{spelled}` | {meaning} |" for spelled, meaning in rows)
    if len(shown) < len(actions):
        hidden = ", ".join(f"`{n}`" for a in actions if a not in shown for n in a.option_strings)
        yield from (
            "",
            "Manifests of the Go plugin may also have the following options; `-v` with a number is",
            f"the same as `--log-level`, the others have no effect: {hidden}.",
        )


def _value(action: argparse.Action) -> str:
    """The placeholder for a value; without bars, which would split a table's cell."""
    words = action.choices if action.choices and not action.metavar else None
    placeholder = words or str(action.metavar or action.dest.rpartition("_")[2].upper()).split("|")
    several = tuple(map(str, placeholder))
    return several[0] if len(several) == 1 else f"{{{','.join(several)}}}"


def _spelled(action: argparse.Action) -> str:
    value = () if action.nargs == 0 else (_value(action),)
    return " ".join((", ".join(action.option_strings), *value)).strip() or action.dest


def _meaning(action: argparse.Action) -> str:
    """The help text, with the default if the text does not have it."""
    text = action.help or ""
    default = action.default
    if isinstance(default, str) and default and "default" not in text:
        text = f"{text}; default {default}" if text else f"default {default}"
    return text


def decisions() -> str:
    """docs/adr/index.md: the list of decisions, by their titles."""
    lines = [
        "# Decisions",
        "",
        "Architecture decision records: one page for each decision that shaped the code, with its",
        "reasons, measurements and consequences, in at most 60 lines.",
        "",
    ]
    for page in sorted((DOCS / "adr").glob("0*.md")):
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title.replace('. ', ': ', 1)}]({page.name})")
    return "\n".join([*lines, ""])


PAGES: Mapping[str, Callable[[], str]] = {
    "adr/index.md": decisions,
    "cli.md": command_line,
    "configuration.md": configuration,
    "configuration.schema.json": schema.text,
    "../agent/configuration.schema.json": schema.text,  # in the wheel, for other tools
    "log-events.md": log_events,
    "metrics.md": metrics,
}


def stale() -> list[str]:
    """Names of pages whose committed text differs from the generated one."""
    return [n for n, make in PAGES.items() if _committed(n) != make()]


def _committed(name: str) -> str | None:
    page = DOCS / name
    return page.read_text() if page.is_file() else None


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

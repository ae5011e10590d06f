"""Names that the documentation uses are the agent's: log events, metrics, causes, options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.cli.arguments import build_parser
from agent.cli.completion import _parsers
from agent.events.catalog import catalog
from agent.health.assess import CHECKS
from agent.http.counters import Counters
from agent.http.exposition import families
from agent.status.state import AgentState

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
CHART = (ROOT / "charts/sriov-node-agent/README.md").read_text()
FOR_DEVELOPERS = ("adr", "image.md", "performance.md", "releasing.md", "testing.md")
PAGES = (
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if p.relative_to(DOCS).parts[0] not in FOR_DEVELOPERS),
)
OPTIONS_OF_OTHERS = {"--root-dir", "--set", "--wait"}
"""Kubelet's and helm's."""
EVENTS = catalog()
_GROUPS = "|".join(sorted({name.partition(".")[0] for name in EVENTS}))
_EVENT = re.compile(rf"(?:{_GROUPS})\.[a-z_]+")


def spans(page: Path) -> list[str]:
    """What stands in backticks."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_event_that_a_page_names_is_one_of_the_log_stream(page: Path) -> None:
    named = {span for span in spans(page) if _EVENT.fullmatch(span)}
    others = {name for name in named if f"`{name}`" in CHART or name.endswith((".json", ".md"))}
    assert named - others - EVENTS.keys() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_metric_that_a_page_names_is_exposed(page: Path) -> None:
    known = {family.name for family in families(AgentState(), Counters(), {})}
    named = {m for span in spans(page) for m in re.findall(r"\bsriov_agent_\w+", span)}
    bare = {re.sub(r"_(total|info|bucket|sum|count)$", "", name) for name in named}
    assert bare - known - {"sriov_agent_"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_option_that_a_page_names_is_one_of_the_command_line(page: Path) -> None:
    known = {
        option
        for parser in _parsers(build_parser())
        for action in parser._actions
        for option in action.option_strings
    }
    named = {
        option
        for span in spans(page)
        if span.startswith(("--", "sriov-agent"))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span)
    }
    assert named - known - OPTIONS_OF_OTHERS == set()


def test_troubleshooting_has_every_cause_of_unhealthy_devices_and_no_other() -> None:
    page = (DOCS / "troubleshooting.md").read_text()
    table = page.split("## Devices are Unhealthy")[1].split("\n## ")[0]
    told = set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    assert told == {str(cause) for check in CHECKS for cause in check.causes}


def test_every_extension_key_is_named_in_the_migration_guide() -> None:
    rows = re.findall(r"^\| `(\w+)`\*", (DOCS / "configuration.md").read_text(), re.MULTILINE)
    assert rows
    migration = (DOCS / "migration.md").read_text()
    assert [key for key in rows if f"`{key}`" not in migration] == []

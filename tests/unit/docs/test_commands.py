"""Commands of the documentation are what the real parser takes; files that it names are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cli.arguments import COMMANDS, parse
from agent.cli.dispatch import run
from tests.support.host_builder import HostBuilder

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
MADE_FROM_THE_PARSER = DOCS / "cli.md"
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page != MADE_FROM_THE_PARSER),
)
_CODE_LINE = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"(?:^|[\s/(])sriov-agent +([^)`]*)")
_SHELL = re.compile(r" +(?:#|\||>|&&|\\$).*")


def command_lines(text: str) -> Iterator[str]:
    """What follows `sriov-agent` in indented code and in code spans; ellipses are no command."""
    joined = re.sub(r"\\\n\s*", "", text)
    for code in (*_CODE_LINE.findall(joined), *_CODE_SPAN.findall(joined)):
        for found in _COMMAND.findall(code):
            if "..." not in found and (words := _SHELL.sub("", found)):
                yield re.sub(r"[\[\]]", "", words).rstrip('"')


LINES = sorted(
    {
        (page.relative_to(ROOT).as_posix(), c)
        for page in PAGES
        for c in command_lines(page.read_text())
    }
)


def test_the_documentation_has_commands() -> None:
    assert ("docs/quick-start.md", "validate config.json --on-this-host") in LINES
    assert (
        "docs/operator.md",
        "explain RESOURCE --config-file /etc/pcidp/NODE --resource-prefix PREFIX",
    ) in LINES
    assert ("docs/observability.md", "completion bash") in LINES
    assert len({line.split()[0] for _, line in LINES}) >= 8


@pytest.mark.parametrize(("page", "line"), LINES)
def test_the_parser_accepts_a_command_line_of_the_documentation(page: str, line: str) -> None:
    words = shlex.split(line)
    if words[-1] in {"--help", "--version"}:
        with pytest.raises(SystemExit, match="0"):
            parse(words)
    elif line not in COMMANDS:  # the mere name of a command, in a sentence
        assert vars(parse(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`((?:tests|docs|agent|charts|protos|\.ci)/[\w./*-]+)`", text)
    if page.name in {"README.md", "CONTRIBUTING.md"}:  # the site's own links are mkdocs' business
        named += [
            link.partition("#")[0]
            for link in re.findall(r"\]\(([^)\s]+)\)", text)
            if not link.startswith(("#", "http"))
        ]
    assert [
        name for name in named if not any(ROOT.glob(name.rstrip("/").replace("NAME", "*")))
    ] == []


def test_the_funnel_of_the_quick_start_is_what_the_agent_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = HostBuilder(tmp_path / "host")
    host.pf("0000:18:00.0", "eno1")
    host.default_route("eno1")
    host.pf("0000:3b:00.0", "ens1f0", vfs=4)
    host.pf("0000:3b:00.1", "ens1f1", vfs=2)
    page = (DOCS / "quick-start.md").read_text()
    config = tmp_path / "config.json"
    config.write_text(page.split("```json\n")[1].split("```")[0])

    code = run(
        ["explain", "intel_vfs", "--config-file", str(config), "--host-root", str(host.root)]
    )
    told = capsys.readouterr().out
    shown = page.split("    intel.com/intel_vfs (netDevice)")[1].split("\nWhere the number")[0]
    expected = "intel.com/intel_vfs (netDevice)" + shown
    lines = [line.removeprefix("    ").rstrip() for line in expected.splitlines()]
    assert code == 0
    assert told.splitlines()[: len(lines)] == lines

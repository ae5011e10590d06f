"""Each exception from a rule has its reason beside it, and no security rule is off."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import attrs

from tests.release.artifacts import REPOSITORY

PROJECT = REPOSITORY / "pyproject.toml"
_RULE = re.compile(r'^\s+"[A-Z]+[0-9]*",?(.*)$')
_SILENCED = re.compile(r"# noqa: ([A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)(.*)")


@attrs.frozen
class Silence:
    """One line of the code that is excepted from a rule."""

    place: str
    rule: str
    reason: str


def silences() -> Iterator[Silence]:
    for folder in ("agent", "charts", "docs", "protos"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if found := _SILENCED.search(line):
                    place = f"{path.relative_to(REPOSITORY)}:{number}"
                    for rule in found[1].split(", "):
                        yield Silence(place, rule, found[2].strip(" -("))


def test_the_security_rules_of_the_linter_are_enabled_for_the_agent() -> None:
    lint = tomllib.loads(PROJECT.read_text())["tool"]["ruff"]["lint"]
    assert lint["select"] == ["ALL"]
    assert not [rule for rule in lint["ignore"] if re.match(r"S\d", rule)]
    for pattern, rules in lint["per-file-ignores"].items():
        assert not (pattern.startswith("agent") and [r for r in rules if re.match(r"S\d", r)])


def test_each_rule_that_is_off_says_why() -> None:
    text = PROJECT.read_text()
    part = text.partition("[tool.ruff.lint]")[2].partition("[tool.ruff.lint.pylint]")[0]
    tails = {m[0].strip(): m[1].strip() for line in part.splitlines() if (m := _RULE.match(line))}
    assert len(tails) > 20
    assert [rule for rule, tail in tails.items() if not re.match(r"# \w", tail)] == []


def test_each_line_that_breaks_a_security_rule_says_why() -> None:
    found = [s for s in silences() if re.match(r"S\d", s.rule)]
    assert found
    assert [s.place for s in found if not s.reason] == []

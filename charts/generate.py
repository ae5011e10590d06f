"""Fills in what the chart says twice: schema descriptions, the schema of a pool, README tables.

The comments of ``values.yaml`` are the source of the descriptions and of the table of values; the
agent's own JSON Schema is the source of a pool's schema; the alerts and
``rights.yaml`` are the sources of their tables, here and in docs/rights.md.
``python charts/generate.py`` writes, ``--check`` only compares.
"""
# ruff: noqa: INP001 - a script beside its data, not a package

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import yaml

from agent.config.json_schema import definitions

CHART = Path(__file__).parent / "sriov-node-agent"
RIGHTS = Path(__file__).parent / "rights.yaml"
RIGHTS_PAGE = Path(__file__).parents[1] / "docs/rights.md"


@attrs.frozen
class Value:
    """One documented key of ``values.yaml``."""

    path: tuple[str, ...]
    default: object
    comment: str


def documented_values(text: str) -> Iterator[Value]:
    """Every key that has a comment above it, in the file's order.

    Raises ValueError for a key that has none and holds no commented keys either.
    """
    root = yaml.compose(text)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("values.yaml holds no mapping")  # noqa: TRY004 - of a file, not of a caller
    yield from _documented(root, text.splitlines(), ())


def _documented(
    mapping: yaml.MappingNode, lines: list[str], parents: tuple[str, ...]
) -> Iterator[Value]:
    for key, value in mapping.value:
        path = (*parents, key.value)
        if comment := _comment_above(lines, key.start_mark.line):
            yield Value(path, yaml.safe_load(yaml.serialize(value)), comment)
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _documented(value, lines, path)
        else:
            raise ValueError(f"values.yaml: {'.'.join(path)} has no comment")


def _comment_above(lines: list[str], line: int) -> str:
    comment: list[str] = []
    while line and (found := re.fullmatch(r"\s*# ?(.*)", lines[line - 1])):
        comment.insert(0, found[1])
        line -= 1
    return " ".join(comment)


def with_generated(schema: dict[str, Any], values: list[Value]) -> dict[str, Any]:
    """The schema with descriptions and the definitions of pools and selectors."""
    for value in values:
        at = schema
        for name in value.path:
            at = at["properties"][name]
        at["description"] = value.comment
    schema |= _cdi_vendors()
    schema["definitions"] = definitions()
    return schema


def _cdi_vendors() -> dict[str, Any]:
    """With CDI each prefix is a CDI vendor: a letter first, and two characters or more."""
    vendor = {"pattern": "^[a-z].*[a-z0-9]$"}
    pool = {"patternProperties": {"^[rR]esourcePrefix$": vendor}}
    pools = {
        "resourceList": {"items": pool},
        "nodes": {"additionalProperties": {"items": pool}},
    }
    switched_on = {"properties": {"enabled": {"const": True}}, "required": ["enabled"]}
    return {
        "if": {"properties": {"cdi": switched_on}, "required": ["cdi"]},
        "then": {"properties": {"resourcePrefix": vendor, "config": {"properties": pools}}},
    }


def values_table(values: list[Value]) -> str:
    """The table of values for the README."""
    rows = "".join(
        f"| `{'.'.join(v.path)}` | `{json.dumps(v.default)}` | {_cell(v.comment)} |\n"
        for v in values
    )
    return f"| value | default | meaning |\n|---|---|---|\n{rows}"


def alerts_table(alerts: list[dict[str, Any]]) -> str:
    """The table of alerts for the README."""
    rows = "".join(
        f"| {a['alert']} | {a['labels']['severity']} | {_cell(a['annotations']['summary'])} "
        f"{_cell(a['annotations']['description'])} |\n"
        for a in alerts
    )
    return f"| alert | severity | says |\n|---|---|---|\n{rows}"


def rights_table(rights: list[dict[str, str]]) -> str:
    """The table of capabilities, for the README and the page on rights."""
    rows = "".join(
        f"| {_cell(r['feature'])} | {r.get('capability', 'none')} | {_cell(r['without'])} |\n"
        for r in rights
    )
    return f"| feature | capability | why none, or what is lost without |\n|---|---|---|\n{rows}"


def _cell(text: str) -> str:
    text = re.sub(r"{{ \$(?:labels\.)?(\w+)[^}]*}}", r"*\1*", text)
    return text.replace("|", "\\|").strip()


def with_section(text: str, name: str, content: str) -> str:
    """The README with what stands between the markers of a section replaced."""
    begin, end = f"<!-- {name}: made by charts/generate.py -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{content}{end}{rest.partition(end)[2]}"


def generated() -> dict[Path, str]:
    """Every file that has generated parts, with its content."""
    values = list(documented_values((CHART / "values.yaml").read_text("utf-8")))
    alerts = yaml.safe_load((CHART / "files/alerts.yaml").read_text("utf-8"))
    schema = with_generated(json.loads((CHART / "values.schema.json").read_text("utf-8")), values)
    readme = (CHART / "README.md").read_text("utf-8")
    readme = with_section(readme, "values", values_table(values))
    readme = with_section(readme, "alerts", alerts_table(alerts))
    rights = rights_table(yaml.safe_load(RIGHTS.read_text("utf-8")))
    readme = with_section(readme, "rights", rights)
    page = with_section(RIGHTS_PAGE.read_text("utf-8"), "rights", rights)
    return {
        CHART / "values.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        CHART / "README.md": readme,
        RIGHTS_PAGE: page,
    }


def main(arguments: list[str]) -> int:
    """Write the files, or say which are not up to date."""
    stale = [p for p, text in generated().items() if p.read_text("utf-8") != text]
    if arguments == ["--check"]:
        sys.stderr.write("".join(f"{path.name} is not up to date\n" for path in stale))
        return 1 if stale else 0
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

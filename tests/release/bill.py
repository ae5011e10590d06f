"""The bill of materials: what runs beside the agent's own code, and under which licence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from license_expression import get_spdx_licensing

import agent
from tests.release.artifacts import run
from tests.release.pythons import Environment

VERSION = "1.6"
"""Of the CycloneDX schema."""
_SPDX = get_spdx_licensing()
_TOOLS = ("pip", "setuptools")
"""In each fresh environment, and no part of the agent."""


def write_bill(environment: Environment, project: Path, to: Path) -> None:
    """Write the bill of an environment to ``to``; the agent itself is what it is the bill of."""
    run(
        *(sys.executable, "-m", "cyclonedx_py", "environment", environment.python),
        *("--pyproject", project, "--mc-type", "application", "--output-format", "JSON"),
        *("--spec-version", VERSION, "--output-reproducible", "--output-file", to),
    )
    bill = json.loads(to.read_text())
    bill["metadata"]["component"]["version"] = agent.__version__  # pyproject names its place only
    left_out = {c["bom-ref"] for c in bill["components"] if c["name"] in _TOOLS}
    bill["components"] = [c for c in bill["components"] if c["bom-ref"] not in left_out]
    bill["dependencies"] = [d for d in bill["dependencies"] if d["ref"] not in left_out]
    to.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")


def licences(component: Mapping[str, Any]) -> frozenset[str]:
    """What a component declares: SPDX expressions, and classifiers where there is nothing else."""
    told = frozenset(_told(component))
    expressions = frozenset(t for t in told if not t.startswith("License ::"))
    return expressions or told


def _told(component: Mapping[str, Any]) -> Iterator[str]:
    for entry in component.get("licenses", ()):
        licence = entry.get("license", {})
        yield str(entry.get("expression") or licence.get("id") or licence.get("name"))


def may_be_used(expression: str, allowed: frozenset[str]) -> bool:
    """Whether a licence expression can be met with allowed licences: any side of OR, all of AND."""
    return _met(_SPDX.parse(expression, validate=True), allowed)


def _met(parsed: Any, allowed: frozenset[str]) -> bool:  # noqa: ANN401 - the library has no types
    if parsed.isliteral:
        return parsed.key in allowed
    parts = [_met(part, allowed) for part in parsed.args]
    return any(parts) if isinstance(parsed, _SPDX.OR) else all(parts)

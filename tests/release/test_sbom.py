"""The bill of materials says what is installed and under which terms, in a form for tools."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

import agent
from tests.release.bill import VERSION, licences, may_be_used
from tests.release.pythons import Environment

TERMS = tomllib.loads((Path(__file__).parent / "licences.toml").read_text())
ALLOWED = frozenset(TERMS["allowed"])


@pytest.fixture(scope="module")
def bill(sbom: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(sbom.read_text())
    return read


def test_the_sbom_follows_its_schema(sbom: Path) -> None:
    assert SchemaVersion.V1_6.to_version() == VERSION
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom.read_text())
    assert fault is None, fault


def test_the_sbom_has_this_version_and_this_licence(bill: dict[str, Any]) -> None:
    told = bill["metadata"]["component"]
    assert (told["name"], told["version"]) == ("sriov-node-agent", agent.__version__)
    assert licences(told) == {"Apache-2.0"}


def test_the_sbom_names_all_installed_packages_and_nothing_else(
    bill: dict[str, Any], locked: Environment
) -> None:
    installed = {
        (canonicalize_name(p["name"]), p["version"])
        for p in json.loads(locked.pip("list", "--format=json"))
        if p["name"] not in {"pip", "setuptools", "sriov-node-agent"}
    }
    told = {(canonicalize_name(c["name"]), c["version"]) for c in bill["components"]}
    assert told == installed
    assert all(c["purl"].startswith("pkg:pypi/") for c in bill["components"])


def test_each_licence_is_allowed_or_an_exception_with_a_reason(bill: dict[str, Any]) -> None:
    refused = {
        name: sorted(declared)
        for c in bill["components"]
        if (name := canonicalize_name(c["name"]))
        if not _is_fine(name, declared := licences(c))
    }
    assert refused == {}


def _is_fine(name: str, declared: frozenset[str]) -> bool:
    exception = TERMS["exceptions"].get(name)
    if exception:
        return bool(exception["reason"]) and declared == {exception["licence"]}
    return bool(declared) and all(may_be_used(text, ALLOWED) for text in declared)


def test_no_exception_is_left_over(bill: dict[str, Any]) -> None:
    assert set(TERMS["exceptions"]) <= {canonicalize_name(c["name"]) for c in bill["components"]}


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("GPL-2.0-or-later", False),
        ("GPL-2.0-or-later OR Apache-2.0", True),
        ("MIT AND BSD-2-Clause", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT AND GPL-3.0-only) OR (MIT AND PSF-2.0)", True),
    ],
)
def test_an_expression_is_met_by_any_side_of_or_and_all_of_and(expression: str, fine: bool) -> None:  # noqa: FBT001
    assert may_be_used(expression, ALLOWED) == fine

"""The JSON Schema agrees with the loader, as far as a schema can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from agent.config.json_schema import document
from agent.config.load import load_config
from agent.config.schema import POOL_KEYS
from agent.selectors import SELECTORS

CASES = Path(__file__).parents[2] / "cases"
EXAMPLES = Path(__file__).parents[3] / "docs"
SCHEMA = Draft7Validator(document())
BASE = {"resourceName": "net", "selectors": {"vendors": ["8086"]}}


def problems_of(config: object) -> tuple[str, ...]:
    data = json.dumps(config).encode()
    return load_config(data, source="file", default_prefix="intel.com").lines()


def parsed() -> list[tuple[str, object]]:
    """The cases that are JSON."""
    cases: list[tuple[str, object]] = []
    for path in sorted(CASES.glob("*.json")):
        try:
            cases.append((path.name, json.loads(path.read_bytes())))
        except ValueError:
            continue
    return cases


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(document())


@pytest.mark.parametrize(
    "config",
    [c for _, c in parsed() if not problems_of(c)],
    ids=lambda c: str(c)[:40],
)
def test_a_configuration_without_problems_is_valid(config: object) -> None:
    assert [error.message for error in SCHEMA.iter_errors(config)] == []


@pytest.mark.parametrize("key", POOL_KEYS.values(), ids=lambda key: key.name)
def test_the_example_of_each_key_of_a_pool_is_valid_and_loads(key: object) -> None:
    config = {"resourceList": [{**BASE, key.name: key.example}]}  # type: ignore[attr-defined]
    assert [error.message for error in SCHEMA.iter_errors(config)] == []
    assert problems_of(config) == ()


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=lambda selector: selector.key)
def test_the_example_of_each_selector_is_valid(selector: object) -> None:
    selectors = {selector.key: selector.example}  # type: ignore[attr-defined]
    config = {"resourceList": [{**BASE, "selectors": selectors}]}
    assert [error.message for error in SCHEMA.iter_errors(config)] == []


@pytest.mark.parametrize(
    "pool",
    [
        {},
        {**BASE, "resourceName": "-net"},
        {**BASE, "resourceName": 5},
        {**BASE, "deviceType": "netdevice2"},
        {**BASE, "selectors": []},
        {**BASE, "selectors": "8086"},
        {**BASE, "selectors": {"vendors": "8086"}},
        {**BASE, "selectors": {"vendors": [8086]}},
        {**BASE, "selectors": {"isRdma": "true"}},
        {**BASE, "selectors": {"vdpaType": "other"}},
        {**BASE, "excludeTopology": "true"},
        {**BASE, "additionalInfo": {"*": {"token": 5}}},
        {**BASE, "health": {"recoveryHoldSeconds": -1}},
        {**BASE, "allocationPolicy": "random"},
    ],
    ids=str,
)
def test_a_structure_that_the_loader_refuses_is_invalid_by_the_schema(pool: object) -> None:
    config = {"resourceList": [pool]}
    assert not SCHEMA.is_valid(config)
    assert problems_of(config)


@pytest.mark.parametrize(
    "pool", [{**BASE, "vendor": "8086"}, {**BASE, "selectors": {"pf": []}}], ids=str
)
def test_unknown_keys_are_invalid(pool: object) -> None:
    assert not SCHEMA.is_valid({"resourceList": [pool]})


def test_a_file_may_name_its_schema() -> None:
    config = {"$schema": "configuration.schema.json", "resourceList": [BASE]}
    assert SCHEMA.is_valid(config)
    assert problems_of(config) == ()


def capitalised(value: object) -> object:
    """The same value with each key as Go writes the name of a field."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: capitalised(inner) for key, inner in value.items()}
    return [capitalised(inner) for inner in value] if isinstance(value, list) else value


def test_keys_may_be_spelled_as_in_go() -> None:
    health = {"link": True, "recoveryHoldSeconds": 5}
    config = capitalised({"resourceList": [{**BASE, "health": health}]})
    assert problems_of(config) == ()
    assert [error.message for error in SCHEMA.iter_errors(config)] == []


@pytest.mark.parametrize("key", ["resourceName", "selectors"])
def test_a_pool_without_a_required_key_is_invalid(key: str) -> None:
    pool = {name: value for name, value in BASE.items() if name != key}
    errors = [error.message for error in SCHEMA.iter_errors({"resourceList": [pool]})]
    assert errors == [f"'{key}' is a required property"]


def test_a_value_of_the_wrong_type_under_a_key_as_in_go_is_invalid() -> None:
    assert not SCHEMA.is_valid({"resourceList": [{**BASE, "AllowInUse": "true"}]})


def test_a_spelling_that_gives_a_hint_is_invalid() -> None:
    config = {"resourceList": [{**BASE, "allowinuse": True}]}
    assert "is read as allowInUse" in "".join(problems_of(config))
    assert not SCHEMA.is_valid(config)

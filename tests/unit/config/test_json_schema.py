"""The JSON Schema agrees with the loader, as far as a schema can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from agent.config.json_schema import document
from agent.config.load import load_config
from agent.config.pool_keys import POOL_KEYS
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
    found: list[tuple[str, object]] = []
    for path in sorted(CASES.glob("*.json")):
        try:
            found.append((path.name, json.loads(path.read_bytes())))
        except ValueError:
            continue
    return found


def is_canonical(value: object) -> bool:
    """Whether all keys are spelled as documented; Go's operator writes them with a capital."""
    if isinstance(value, dict):
        return all(not k[:1].isupper() and is_canonical(v) for k, v in value.items())
    return all(map(is_canonical, value)) if isinstance(value, list) else True


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(document())


@pytest.mark.parametrize(
    "config",
    [c for _, c in parsed() if is_canonical(c) and not problems_of(c)],
    ids=lambda c: str(c)[:40],
)
def test_a_configuration_without_problems_is_valid(config: object) -> None:
    assert [error.message for error in SCHEMA.iter_errors(config)] == []


@pytest.mark.parametrize("key", POOL_KEYS.values(), ids=lambda key: key.key)
def test_the_example_of_each_key_of_a_pool_is_valid_and_loads(key: object) -> None:
    config = {"resourceList": [{**BASE, key.key: key.example}]}  # type: ignore[attr-defined]
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
def test_what_the_loader_refuses_for_its_structure_is_invalid(pool: object) -> None:
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

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.config.dump import dump_config
from agent.config.json_layout import pretty
from agent.config.load import load_config
from agent.config.schema import Config

CASES = sorted((Path(__file__).resolve().parents[2] / "cases").glob("*.json"))
FULL = """
{"resourceList": [{
  "resourcePrefix": "x.org", "resourceName": "full", "deviceType": "auxNetDevice",
  "selectors": [
    {"auxTypes": ["sf"], "pfNames": ["p*#0-3,9", "p0"], "rootDevices": ["08:00.0#4"],
     "linkTypes": ["IB"], "isRdma": true, "needVhostNet": true, "pciAddresses": ["08:00.0"]},
    {"auxTypes": ["eth", "sf"], "vendors": ["0x15B3"]},
    {"auxTypes": ["sf"], "pfNames": ["p0#x"], "drivers": [null]}
  ],
  "excludeTopology": true, "additionalInfo": {"*": {"a": "b"}},
  "health": {"link": false, "recoveryHoldSeconds": 0.25},
  "advertiseEmpty": true, "allowInUse": true, "allocationPolicy": "numa"
}, {
  "resourceName": "net", "allocationPolicy": "",
  "selectors": [{"pKeys": ["8001"], "vdpaType": "virtio", "ddpProfiles": ["A B"],
                 "acpiIndexes": ["007"]}, {"vdpaType": "vhots"}]
}]}
"""


def loaded(data: bytes, prefix: str = "intel.com") -> Config | None:
    return load_config(data, source="f", default_prefix=prefix).config


@pytest.mark.parametrize("case", [*CASES, FULL], ids=lambda c: getattr(c, "name", "full"))
def test_a_written_configuration_loads_to_the_same_configuration(case: Path | str) -> None:
    data = case.encode() if isinstance(case, str) else case.read_bytes()
    config = loaded(data)
    if config is not None:
        assert loaded(dump_config(config).encode(), prefix="another.org") == config


def test_the_full_configuration_is_read_completely() -> None:
    config = loaded(FULL.encode())
    assert config is not None
    assert len(config.pools) == 2


@pytest.mark.parametrize(
    "value", [{}, [], {"a": []}, [[1, 2], {"b": {"c": "é\u202e"}}], "x", {"a": ["y" * 40] * 3}]
)
def test_json_for_people_is_json(value: object) -> None:
    assert json.loads(pretty(value)) == value


def test_short_values_stay_on_one_line() -> None:
    assert pretty({"a": [{"b": ["x", "y"]}]}) == ('{\n  "a": [\n    {"b": ["x", "y"]}\n  ]\n}')

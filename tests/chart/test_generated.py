"""What is said twice is made from one source and up to date; what people read is well written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.generate import documented_values
from tests.chart.helm import CHART, EXAMPLES, REPOSITORY


def test_schema_and_readme_are_up_to_date_with_the_generator() -> None:
    command = [sys.executable, "charts/generate.py", "--check"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_value_without_a_comment_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"http\.port has no comment"):
        list(documented_values("# Whole.\na: {}\nhttp:\n  # On.\n  enabled: true\n  port: 1\n"))


def test_the_schema_is_closed_and_describes_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))

    def walk(node: dict[str, Any], value: object, path: str) -> None:
        if "properties" in node and node.get("additionalProperties") is not False:
            raise AssertionError(f"{path} is open")
        if isinstance(value, dict) and "description" not in node:
            assert set(node["properties"]) - {"global"} == set(value), path
            for key, inner in value.items():
                walk(node["properties"][key], inner, f"{path}/{key}")
        else:
            assert node["description"], path

    walk(schema, values, "")


@pytest.mark.parametrize(
    "file", [CHART / "values.yaml", CHART / "Chart.yaml", CHART / "files/alerts.yaml", *EXAMPLES]
)
def test_yamllint_finds_nothing(file: Path) -> None:
    rules = "{extends: default, rules: {line-length: {max: 100}, document-start: disable}}"
    command = [sys.executable, "-m", "yamllint", "--strict", "--config-data", rules, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

"""The wheel, installed as users install it, on the oldest and the newest Python that it is for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import agent
from tests.release.artifacts import Built, run
from tests.release.pythons import VERSIONS, Environment, interpreter

CONFIG = {"resourceList": [{"resourceName": "vf", "selectors": {"drivers": ["iavf"]}}]}


@pytest.fixture(scope="module", params=VERSIONS)
def installed(
    request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    made = Environment(interpreter(request.param), tmp_path_factory.mktemp("installed") / "venv")
    made.pip("install", built.wheel)
    return made


def test_the_dependencies_of_the_installed_agent_are_consistent(installed: Environment) -> None:
    installed.pip("check")


def test_the_installed_agent_prints_its_version(installed: Environment) -> None:
    assert run(installed.agent, "--version").strip() == agent.__version__


def test_the_installed_agent_validates_a_configuration(
    installed: Environment, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    run(installed.agent, "validate", path)


def test_the_demo_shows_all_its_steps_on_the_sample_node(
    installed: Environment, tmp_path: Path
) -> None:
    assert "registered" in run(installed.agent, "demo", cwd=tmp_path)


def test_the_installed_agent_uses_nothing_of_the_checkout(
    installed: Environment, tmp_path: Path
) -> None:
    where = run(installed.python, "-c", "import agent; print(agent.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.python.parents[1])


def test_the_installed_agent_has_exactly_the_versions_of_the_lock(
    locked: Environment, tmp_path: Path
) -> None:
    locked.pip("check")
    assert run(locked.agent, "--version", cwd=tmp_path).strip() == agent.__version__

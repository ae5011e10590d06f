"""The version is written by hand in agent/__init__.py; what has to repeat it says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.version import Version

import agent
from tests.release.artifacts import REPOSITORY, Built

CHART = REPOSITORY / "charts/sriov-node-agent/Chart.yaml"


def test_the_version_is_a_plain_one_in_its_normal_form() -> None:
    assert str(Version(agent.__version__)) == agent.__version__


def test_the_package_takes_the_version_from_the_agent() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "agent/__init__.py"


def test_chart_and_image_have_the_agents_version() -> None:
    chart = yaml.safe_load(CHART.read_text())
    values = yaml.safe_load((CHART.parent / "values.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (agent.__version__, agent.__version__)
    assert not values["image"]["tag"], "the tag is appVersion, unless somebody wants another"


def test_the_images_label_has_the_agents_version() -> None:
    text = (REPOSITORY / "Containerfile").read_text()
    assert re.findall(r"^ARG VERSION=(.*)$", text, re.MULTILINE) == [agent.__version__]
    assert 'image.version="${VERSION}"' in text


def test_the_files_of_a_release_have_the_version_in_their_names(built: Built) -> None:
    stem = f"sriov_node_agent-{agent.__version__}"
    assert [p.name for p in (built.wheel, built.sdist)] == [
        f"{stem}-py3-none-any.whl",
        f"{stem}.tar.gz",
    ]


def test_no_other_file_of_the_agent_spells_the_version() -> None:
    spelt = re.compile(rf"""["']{re.escape(agent.__version__)}["']""")
    found = [
        str(path.relative_to(REPOSITORY))
        for path in sorted((REPOSITORY / "agent").rglob("*.py"))
        if spelt.search(path.read_text())
    ]
    assert found == ["agent/__init__.py"]


def test_the_changelog_has_no_later_version() -> None:
    told = re.findall(r"^## (\d\S*)", Path(REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert all(Version(v) <= Version(agent.__version__) for v in told)

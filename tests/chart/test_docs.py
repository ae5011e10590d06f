"""Helm values and helm commands of the documentation, through real helm and the closed schema."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.load import load_config
from tests.chart.helm import REPOSITORY, Helm, container, one
from tests.kubelet.tools import kubectl

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
_VALUES = re.compile(r'```yaml title="values\.yaml"\n(.*?)```', re.DOTALL)
_OURS = re.compile(r"^ +helm (install|upgrade) (\S+) charts/sriov-node-agent (.*)$", re.MULTILINE)


def values_of(page: Path) -> Iterator[dict[str, Any]]:
    """The values that a page shows."""
    for block in _VALUES.findall(page.read_text("utf-8")):
        yield yaml.safe_load(block)


def set_by(words: list[str]) -> dict[str, Any]:
    """What the `--set` of a helm command line sets."""
    values: dict[str, Any] = {}
    for assignment in (words[i + 1] for i, word in enumerate(words) if word == "--set"):
        path, _, value = assignment.partition("=")
        *folders, last = path.split(".")
        place = values
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = yaml.safe_load(value)
    return values


VALUES = [
    pytest.param(values, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, values in enumerate(values_of(page))
]
COMMANDS = [
    pytest.param(release, shlex.split(rest), id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (_, release, rest) in enumerate(
        _OURS.findall(re.sub(r" *\\\n\s*", " ", page.read_text("utf-8")))
    )
]


def test_the_documentation_has_values_and_commands() -> None:
    assert {str(p.id).rpartition("-")[0] for p in VALUES} == {"install", "quick-start"}
    assert {"README", "install", "migration", "quick-start"} == {
        str(p.id).rpartition("-")[0] for p in COMMANDS
    }


@pytest.mark.parametrize("values", VALUES)
def test_values_of_the_documentation_render_to_pools_without_a_problem(
    values: dict[str, Any], newest_helm: Helm
) -> None:
    config = one(newest_helm.documents(values), "ConfigMap")["data"]
    for key, text in config.items():
        loaded = load_config(text.encode(), source=key, default_prefix="intel.com", strict=True)
        assert loaded.problems == ()
        assert json.loads(text)["resourceList"]


@pytest.mark.parametrize(("release", "words"), COMMANDS)
def test_a_helm_command_of_the_documentation_sets_values_of_the_chart(
    release: str, words: list[str], newest_helm: Helm
) -> None:
    assert release == "sriov-node-agent", "then the DaemonSet has that name too"
    assert words[words.index("--namespace") + 1] == "kube-system"
    values = set_by(words)
    if image := values.get("image", {}).get("repository"):
        assert container(newest_helm.documents(values))["image"].startswith(f"{image}:")


KUBECTL = sorted(
    {
        line
        for page in PAGES
        for line in re.findall(
            r"(?:^ +|`)(kubectl [^`\n]+)",
            re.sub(r" *\\\n\s*", " ", page.read_text("utf-8")),
            re.MULTILINE,
        )
        if "..." not in line
    }
)


@pytest.mark.parametrize("line", KUBECTL)
def test_kubectl_understands_a_command_of_the_documentation(line: str, tmp_path: Path) -> None:
    # There is no cluster: that it asks for one means that it took the arguments.
    first, *words = shlex.split(re.sub(r" [|>].*", "", line))
    server = f"--server=http://127.0.0.1:{_unused_port()}"
    done = subprocess.run(
        [kubectl(), server, *words],
        env={"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (first, done.returncode) == ("kubectl", 1)
    assert "refused" in done.stderr, done.stderr


def _unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])

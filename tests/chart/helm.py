"""Real helm on the chart: renders, lints, packages; what it says when it refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests.kubelet.tools import PACKAGES, helm

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts/sriov-node-agent"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
MAJORS = sorted(PACKAGES)
RELEASE, NAMESPACE = "sriov", "kube-system"

Document = dict[str, Any]


class RefusedError(Exception):
    """Helm ended with an error; the text is what it printed."""


@attrs.frozen
class Helm:
    """One major version of helm, with folders of its own instead of the user's."""

    major: int
    home: Path

    def template(self, *values: Path | Mapping[str, Any]) -> str:
        """What `helm template` prints for the chart with these values; of two, the later wins."""
        arguments = (RELEASE, CHART, "--namespace", NAMESPACE)
        return self._run("template", *arguments, *self._values(values))

    def template_for(self, release: str) -> str:
        """What is rendered for a cluster of a Kubernetes release."""
        return self._run("template", RELEASE, CHART, "--kube-version", release)

    def documents(self, *values: Path | Mapping[str, Any]) -> list[Document]:
        """The rendered objects."""
        return [d for d in yaml.safe_load_all(self.template(*values)) if d]

    def lint(self, *values: Path | Mapping[str, Any]) -> str:
        """What `helm lint --strict` prints."""
        return self._run("lint", CHART, "--strict", *self._values(values))

    def notes(self, *values: Path | Mapping[str, Any]) -> str:
        """What is printed after an install."""
        arguments = ("--namespace", NAMESPACE, "--dry-run=client", *self._values(values))
        return self._run("install", RELEASE, CHART, *arguments).partition("NOTES:\n")[2]

    def package(self, target: Path) -> Path:
        """The chart as an archive."""
        self._run("package", CHART, "--destination", target)
        return next(target.glob("*.tgz"))

    def _values(self, values: Sequence[Path | Mapping[str, Any]]) -> list[str | Path]:
        arguments: list[str | Path] = []
        for number, value in enumerate(values):
            file = value
            if not isinstance(file, Path):
                file = self.home / f"values-{number}.yaml"
                file.write_text(yaml.safe_dump(value), encoding="utf-8")
            arguments += ["--values", file]
        return arguments

    def _run(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [helm(self.major), *arguments],
            env={**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.home / "none")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RefusedError(done.stdout + done.stderr)
        return done.stdout


def one(documents: Sequence[Document], kind: str) -> Document:
    """The only object of a kind."""
    (found,) = (d for d in documents if d["kind"] == kind)
    return found


def container(documents: Sequence[Document]) -> Document:
    """The agent's container in the rendered DaemonSet."""
    (found,) = one(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    return dict(found)

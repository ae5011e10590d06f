"""The node of the suite: one for all tests, since they tell its pods apart by name."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from . import debian
from .node import Cluster, Node, standalone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_TOOLS = ("ip", "nsenter", "openssl", "unshare")
_TOLD_LINES = 40


def _missing() -> str | None:
    """Why this machine can run no node, or None if it can."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "the node is made of programs for Linux on x86-64"
    if os.geteuid() != 0:
        return "namespaces, mounts and control groups need root"
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            return f"{tool} is not there"
    unshared = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    if subprocess.run(unshared, check=False, capture_output=True).returncode:
        return "namespaces are not permitted here"
    if debian.mirror() is None:
        return "apt has no Debian mirror among its sources: containerd and runc come from there"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the programs of the node printed last beside a test that failed."""
    report = yield
    for made in getattr(item, "funcargs", {}).values():
        node = made.node if isinstance(made, Cluster) else made
        if report.failed and isinstance(node, Node):
            for log in sorted(node.inside.logs.glob("*.log")):
                lines = log.read_text("utf-8", errors="replace").splitlines()[-_TOLD_LINES:]
                report.sections.append((log.name, "\n".join(lines)))
    return report


@pytest.fixture(scope="session")
def able() -> None:
    """Skip, and say why, where the machine cannot run a node."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def node(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A standalone kubelet of the pinned release with containerd; its pods are static."""
    with standalone(tmp_path_factory.mktemp("node")) as running:
        yield running

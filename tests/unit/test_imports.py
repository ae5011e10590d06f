"""What a running agent has imported, and how much: memory and the start hang on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.host_builder import HostBuilder

FORBIDDEN = (
    "_ssl",
    "agent.cli.demo",
    "agent.http",
    "google.protobuf",
    "h11",
    "hashlib",
    "importlib.metadata",
    "prometheus_client",
    "pydantic",
    "pyroute2.ndb",
    "rich",
    "shtab",
    "yaml",
)
"""Modules for which a node agent without HTTP and with a JSON configuration has no use."""
MODULES_AT_MOST = 690

SCRIPT = """
import json, os, signal, sys
from agent.cli.dispatch import run
from agent.startup import import_leanly
with import_leanly():
    from agent import logs

awaited = {"netlink.open", "admin.listening"}

def heard(event):
    if event.name in awaited:
        awaited.remove(event.name)
        if not awaited:
            os.kill(os.getpid(), signal.SIGTERM)

logs.follow(heard)
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def imported() -> Iterator[list[str]]:
    """The modules of an agent that has all of its parts at work, but HTTP.

    Its host has a short path, wherever temporary files are: sockets have no room in a long one,
    and names that are cut need hashlib.
    """
    with TemporaryDirectory(prefix="node-", dir="/tmp") as folder:
        yield _imported_on(HostBuilder(Path(folder)))


def _imported_on(host: HostBuilder) -> list[str]:
    host.pf("0000:3b:00.0", "ens1f0", vfs=4)
    host.roots.device_plugins.mkdir(parents=True)
    config = host.root / "config.json"
    config.write_text('{"resourceList": [{"resourceName": "net", "selectors": {}}]}')
    arguments = ("run", "--host-root", str(host.root), "--config-file", str(config))
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments, "--netlink", "on", "--use-cdi"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    found = json.loads(ran.stdout)
    assert found["code"] == 0, ran.stderr
    return list(found["modules"])


def test_the_agent_worked_during_the_test(imported: list[str]) -> None:
    assert {"agent.daemon", "agent.admin.server", "pyroute2.netlink.nlsocket"} <= set(imported)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_modules_that_run_does_not_use_are_not_imported(imported: list[str], name: str) -> None:
    assert [m for m in imported if m == name or m.startswith(f"{name}.")] == []


def test_the_number_of_modules_stays_small(imported: list[str]) -> None:
    assert len(imported) <= MODULES_AT_MOST

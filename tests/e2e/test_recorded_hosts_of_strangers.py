"""Commands on a host root from a stranger: one message, exit code 2, and nothing left behind."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder

DEEP = "[" * 200_000


def discover(root: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    temporary.mkdir()
    return subprocess.run(
        (sys.executable, "-m", "agent", "discover", "--host-root", str(root)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def recorded(host: HostBuilder, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        tar.add(host.root, ".")
    return path


def test_an_archive_that_exceeds_a_limit_causes_one_message_and_leaves_no_folder(
    tmp_path: Path,
) -> None:
    path = tmp_path / "host.tar.gz"
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    with gzip.open(path, "wb") as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    done = discover(path, tmp_path / "temporary")
    assert done.returncode == 2
    fault = "a header in it has 1073741824 bytes, at most 65536 are allowed"
    assert done.stderr == f"sriov-agent: {path} is not a recorded host: {fault}\n"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_recorded_host_that_was_read_is_removed_again(host: HostBuilder, tmp_path: Path) -> None:
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    done = discover(recorded(host, tmp_path / "host.tar.gz"), tmp_path / "temporary")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0000:3b:00.0" in done.stdout
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("devlink.json", text) for text in (DEEP, "{", "[]", '{"param": 5}')),
        *(("altnames.json", text) for text in (DEEP, "{", "[]", '{"ens1f0": 5}')),
    ],
)
def test_facts_that_cannot_be_read_are_one_message(
    host: HostBuilder, tmp_path: Path, file: str, content: str
) -> None:
    (host.root / file).write_text(content)
    for number, root in enumerate((host.root, recorded(host, tmp_path / "host.tar.gz"))):
        done = discover(root, tmp_path / f"temporary{number}")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"{file} is n" in line
        assert list((tmp_path / f"temporary{number}").iterdir()) == []


def test_an_agent_continues_without_facts_that_cannot_be_read(
    host: HostBuilder, config: ConfigFile
) -> None:
    (host.root / "devlink.json").write_text(DEEP)
    config.write(pool("net", ddpProfiles=["x"]))
    with AgentProcess(host.root, config.path) as agent:
        said = agent.wait_for("host.devlink_unreadable")
        assert said["reason"].endswith("devlink.json is nested too deeply: the agent ignores it")
        agent.wait_for("config.loaded")
        (host.root / "devlink.json").write_text(DEEP * 2)
        assert agent.stop() == 0

"""A small container at a large node: what the agent answers fits into the memory that it has."""

from __future__ import annotations

import gzip
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

LIMIT_MIB = 48
PFS, VFS_PER_PF = 16, 256


@pytest.fixture
def limited() -> Iterator[tuple[str, ...]]:
    """A command that starts another one in a memory cgroup with the limit."""
    version_1 = Path("/sys/fs/cgroup/memory")
    top = version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")
    limit = "memory.limit_in_bytes" if version_1.is_dir() else "memory.max"
    group = top / f"sriov-node-agent-memory-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot create a cgroup: {error}")
    try:
        if not (group / limit).exists():
            pytest.skip(f"no memory controller in {top}")
        (group / limit).write_text(str(LIMIT_MIB << 20))
        yield ("sh", "-ec", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    finally:
        group.rmdir()


def test_all_answers_about_4096_vfs_fit_into_48_mib(
    host: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
    limited: tuple[str, ...],
    tmp_path: Path,
) -> None:
    for number in range(PFS):
        host.pf(f"0000:{number * 3 + 1:02x}:00.0", f"ens{number}", vfs=VFS_PER_PF)
    config.write(*(pool(f"net{n}", pfNames=[f"ens{n}"]) for n in range(PFS)))
    for wrapper in ((), limited):  # the first run compiles the modules, as images do
        with AgentProcess(
            host.root,
            config.path,
            *("--http-address", "127.0.0.1:0"),
            wrapper=wrapper,
            env={"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")},
        ) as agent:
            address = agent.wait_for("http.listening")["address"]
            agent.wait_for("host.watching")
            for number in range(PFS):
                has_all(kubelet, f"example.com/net{number}")
            for path in ("/healthz", "/metrics", "/status", "/metrics", "/status"):
                body = answer(address, path)
            assert len(json.loads(body)["devices"]) == PFS * (1 + VFS_PER_PF)
            assert agent.stop() == 0


def has_all(kubelet: Kubelet, name: str) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(name)) == VFS_PER_PF, f"all of {name}")


def answer(address: str, path: str) -> bytes:
    """One answer, compressed on its way as for Prometheus and browsers."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return gzip.decompress(body) if response.headers["Content-Encoding"] == "gzip" else body

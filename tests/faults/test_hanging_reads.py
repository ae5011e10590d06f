"""Reads of sysfs that hang in a driver stall the scan, and nothing else.

A FIFO stands in for the file: whoever opens it for reading sleeps in the kernel until a writer
comes, as a read in a hung driver does.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent import blocking
from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
OTHER_PF = "0000:5e:00.0"
NET = "example.com/net"
OTHER = "example.com/other"
THREADS = blocking.THREADS["reread"] + 16
"""Reads that hang, the scan, and asyncio's own workers for files."""


@contextmanager
def hanging(file: Path) -> Iterator[None]:
    """Every open of ``file`` hangs inside; those that hang get the old content at the end."""
    content = file.read_bytes()
    fifo = file.with_name(f".{file.name}")
    os.mkfifo(fifo)
    fifo.rename(file)
    try:
        yield
    finally:
        plain = file.with_name(f".{file.name}")
        plain.write_bytes(content)
        writer = os.open(file, os.O_RDWR)  # on Linux this never waits, and readers wake
        plain.rename(file)
        os.write(writer, content)
        os.close(writer)


def has(kubelet: Kubelet, count: int, resource: str) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(resource)) == count, f"{count} of {resource}")


def ready(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def http_port(agent: AgentProcess) -> int:
    return int(agent.wait_for("http.listening")["address"].rpartition(":")[2])


def test_a_scan_that_hangs_stalls_no_list_no_allocation_and_no_watcher(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    host.pf(OTHER_PF, "ens2f0", vfs=2)
    config.write(pool("net", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path, "--http-address", "127.0.0.1:0") as agent:
        has(kubelet, 4, NET)
        agent.wait_for("host.watching")
        port = http_port(agent)
        with hanging(host.folder(host.vfs(PF)[3]) / "vendor"):
            host.set_driver(host.vfs(PF)[0], None)  # a reason to scan
            device = host.vfs(PF)[3]
            answer = kubelet.allocate(NET, device)  # its own file hangs too
            assert answer.envs["PCIDEVICE_EXAMPLE_COM_NET"] == device
            assert agent.wait_for("allocation.stale_facts")["devices"] == device
            config.write(pool("net", pfNames=["ens1f0"]), pool("other", pfNames=["ens2f0"]))
            has(kubelet, 2, OTHER)
            kubelet.restart()
            has(kubelet, 4, NET)
            has(kubelet, 2, OTHER)
            kubelet.drop_stream(OTHER)
            kubelet.wait_for(lambda k: k.count(OTHER) == 3, "registered again")
            has(kubelet, 2, OTHER)
            assert agent.wait_for("host.scan_stalled")["seconds"] == 10
            status, text = ready(port)
            assert status == 503
            assert "a scan of the host has been hanging for 10 s" in text
        agent.wait_for("host.scan_resumed")
        agent.wait_for("agent.ready", lambda line: line["ready"])
        assert ready(port)[0] == 200
        host.set_driver(host.vfs(PF)[0], "iavf")
        host.remove_vfs(OTHER_PF)
        kubelet.wait_for(lambda k: not k.allocatable(OTHER), "a scan after the one that hung")
        assert agent.stop() == 0


def test_a_first_scan_that_hangs_is_reported_and_the_agent_serves_once_it_returns(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", pfNames=["ens1f0"]))
    with (
        hanging(host.folder(PF) / "vendor"),
        AgentProcess(host.root, config.path, "--http-address", "127.0.0.1:0") as agent,
    ):
        assert "the first scan of the host has not finished" in ready(http_port(agent))[1]
        agent.wait_for("host.scan_stalled")
        assert agent.stop() == 0
    with AgentProcess(host.root, config.path) as agent:
        has(kubelet, 2, NET)


def test_an_agent_whose_scan_hangs_ends_at_once_after_a_stop_signal(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path) as agent:
        has(kubelet, 2, NET)
        agent.wait_for("host.watching")
        with hanging(host.folder(PF) / "vendor"):
            host.set_driver(host.vfs(PF)[0], None)
            assert agent.stop() == 0
    assert [p.name for p in host.roots.device_plugins.glob("*.sock")] == ["kubelet.sock"]


def test_allocations_that_hang_do_not_gather_threads(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=24)
    config.write(pool("net", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path) as agent:
        has(kubelet, 24, NET)
        agent.wait_for("host.watching")
        threads = Path(f"/proc/{agent.process.pid}/task")
        before = len(list(threads.iterdir()))
        with ExitStack() as hang:
            for device in host.vfs(PF):
                hang.enter_context(hanging(host.folder(device) / "vendor"))
            for device in host.vfs(PF):
                kubelet.allocate(NET, device)
            assert len(list(threads.iterdir())) - before <= THREADS
        assert agent.stop() == 0

"""Standard error is a pipe whose reader has stopped, such as a log driver that hangs."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.conftest import ConfigFile, pool
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
NET = "example.com/net"
WRONG_KEYS = 400
"""Each is a line of the log."""
DROPPED = re.compile(r"^sriov_agent_log_lines_dropped_total (\S+)$", re.MULTILINE)


@contextmanager
def agent_whose_log_nobody_reads(
    host: HostBuilder, config: ConfigFile, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, "-m", "agent", "run", "--log-format", "json"),
        *("--host-root", str(host.root), "--config-file", str(config.path)),
        *("--http-address", f"127.0.0.1:{port}"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def dropped(port: int) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            found = DROPPED.search(answer.read().decode())
    except OSError:  # it does not listen yet
        return 0
    assert found is not None
    return float(found[1])


def write(config: ConfigFile, kubelet: Kubelet, number: int) -> None:
    """A pool of another size than before, among keys that are worth a line each."""
    wrong = {f"misspelt{key}of{number}": "x" * 100 for key in range(WRONG_KEYS)}
    last = 6 + number % 2
    config.write({**pool("net", pfNames=[f"ens1f0#0-{last}"]), **wrong})
    kubelet.wait_for(lambda k: len(k.allocatable(NET)) == last + 1, "the edit in force")


def fill_the_log(config: ConfigFile, kubelet: Kubelet, host: HostBuilder, port: int) -> None:
    """Edit and allocate until lines are dropped."""
    number = 0
    while not dropped(port):
        write(config, kubelet, number)
        assert kubelet.allocate(NET, host.vfs(PF)[number % 6]).envs
        number += 1


def test_a_blocked_log_does_not_stop_the_agent_and_reports_the_dropped_lines_afterwards(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    port = free_port()
    with agent_whose_log_nobody_reads(host, config, port) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8)
        fill_the_log(config, kubelet, host, port)
        assert agent.stderr is not None
        said = next(line for line in agent.stderr if b'"log.dropped"' in line)
        assert b'"count": ' in said


def test_sigterm_ends_an_agent_whose_log_nobody_reads(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"]))
    port = free_port()
    with agent_whose_log_nobody_reads(host, config, port) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8)
        fill_the_log(config, kubelet, host, port)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(30) == 0

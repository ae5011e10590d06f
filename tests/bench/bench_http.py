"""What HTTP costs at many functions: sizes, times and memory of scrapes, status and the page.

``python tests/bench/bench_http.py [functions]`` (default 4096) lays a host out in memory, runs the
agent with and without ``--http-address`` beside a kubelet stand-in, and asks it. Then it measures
the optional metrics per VF with counters of every VF, in this process.
"""

from __future__ import annotations

import gzip
import http.client
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from agent.discovery.scan import scan
from agent.host.layout import HostBuilder
from agent.host.vf_traffic import traffic_of
from agent.http.counters import Counters
from agent.http.exposition import exposition
from agent.model.traffic import VfTraffic
from tests.support.agent import AgentProcess
from tests.support.kubelet import Kubelet
from tests.support.moment import moment
from tests.support.pools import pool
from tests.unit.host.test_vf_traffic import ALL, entry, message

_VFS = 255
_ROUNDS = 10
_QUIET_S = 3.0


def lay_out(functions: int) -> HostBuilder:
    """PFs of 255 VFs each, in memory."""
    host = HostBuilder(Path(mkdtemp(prefix="bench-http-", dir="/dev/shm")))
    for number in range(functions // (_VFS + 1)):
        host.pf(f"0000:{number * 4 + 1:02x}:00.0", f"p{number}", vfs=_VFS)
    host.roots.device_plugins.mkdir(parents=True)
    names = ", ".join(
        f'{{"resourceName": "net{n}", "selectors": {{"pfNames": ["p{n}"]}}}}'
        for n in range(functions // (_VFS + 1))
    )
    (host.root / "config.json").write_text(f'{{"resourceList": [{names}]}}')
    return host


@contextmanager
def agent_of(host: HostBuilder, *arguments: str) -> Iterator[AgentProcess]:
    """A ready agent, some seconds after its start."""
    config = host.root / "config.json"
    with (
        Kubelet(host.roots.kubelet),
        AgentProcess(host.root, config, "--log-level", "debug", *arguments) as agent,
    ):
        agent.wait_for("agent.ready", lambda line: line["ready"])
        agent.wait_for("admin.listening")
        time.sleep(_QUIET_S)
        yield agent


def memory_mib(agent: AgentProcess) -> float:
    """Resident memory now."""
    status = Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
    return next(int(s.split()[1]) for s in status if s.startswith("VmRSS")) / 1024


def cpu_s(agent: AgentProcess) -> float:
    """CPU time so far."""
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[float, bytes]:
    """Seconds and body of one answer, compressed as Prometheus and browsers ask for it."""
    began = time.perf_counter()
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    body = connection.getresponse().read()
    return time.perf_counter() - began, body


def asked(agent: AgentProcess, path: str) -> str:
    """One line: size, times and what the process grew by."""
    host, _, port = agent.wait_for("http.listening")["address"].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    before, worked = memory_mib(agent), cpu_s(agent)
    first_s, body = ask(connection, path)
    times = [ask(connection, path)[0] for _ in range(_ROUNDS)]
    connection.close()
    packed = body[:2] == b"\x1f\x8b"
    plain = gzip.decompress(body) if packed else body
    return (
        f"{path:20} {len(plain) / 1024:7.0f} KiB plain {len(body) / 1024:6.0f} KiB sent   "
        f"first {first_s * 1e3:6.0f} ms  median {statistics.median(times) * 1e3:6.1f} ms  "
        f"CPU {(cpu_s(agent) - worked) / (_ROUNDS + 1) * 1e3:5.0f} ms each  "
        f"memory {before:.1f} -> {memory_mib(agent):.1f} MiB"
    )


def bench_agent(host: HostBuilder) -> None:
    """The running agent, without and with HTTP."""
    with agent_of(host) as agent:
        without = memory_mib(agent)
    with agent_of(host, "--http-address", "127.0.0.1:0") as agent:
        agent.wait_for("http.listening")
        print(f"memory without HTTP {without:.1f} MiB, listening {memory_mib(agent):.1f} MiB")
        for path in ("/healthz", "/readyz", "/metrics", "/status?devices=0", "/status", "/"):
            print(asked(agent, path))


def bench_traffic(host: HostBuilder) -> None:
    """The metrics per VF, from the kernel's message to the text."""
    snapshot = scan(host.roots)
    pools = [pool(f"net{n}", {"pfNames": [f"p{n}"]}) for n in range(len(snapshot.pfs))]
    state = moment(snapshot, *pools)
    answer = message(*(entry(vf, ALL) for vf in range(_VFS)))
    parse = median_s(lambda: traffic_of(answer))
    carried = {pf: {vf: VfTraffic(1, 2, 3, 4) for vf in range(_VFS)} for pf in snapshot.pfs}
    counters = Counters()
    without = median_s(lambda: exposition(state, counters))
    whole = exposition(state, counters, carried).body
    write = median_s(lambda: exposition(state, counters, carried))
    print(
        f"per-VF metrics: a PF's answer of {len(answer) / 1024:.0f} KiB read in "
        f"{parse * 1e3:.1f} ms, {len(carried)} PFs in {parse * len(carried) * 1e3:.0f} ms; "
        f"text {len(whole) / 1024:.0f} KiB in {write * 1e3:.0f} ms, without them "
        f"{without * 1e3:.0f} ms; {len(gzip.compress(whole, 1)) / 1024:.0f} KiB sent"
    )


def median_s(run: object) -> float:
    """Median of some rounds."""
    assert callable(run)
    taken = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main(functions: int) -> None:
    """Lay out, measure, print."""
    host = lay_out(functions)
    try:
        bench_agent(host)
        bench_traffic(host)
    finally:
        shutil.rmtree(host.root)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4096)

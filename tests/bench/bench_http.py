"""What HTTP costs at many functions: memory, sizes and times of scrapes, status and the page.

The agent runs with and without ``--http-address`` beside a kubelet and is asked as Prometheus and
browsers ask; the optional metrics per VF are measured in this process, with counters of every VF.
"""

from __future__ import annotations

import gzip
import http.client
import socket
import statistics
import time

from agent.discovery.scan import scan
from agent.host.vf_stats import traffic_of
from agent.http.counters import Counters
from agent.http.exposition import exposition
from agent.model.traffic import VfTraffic
from tests.bench import harness, process
from tests.bench.harness import Figure, Result
from tests.bench.peer import Peer
from tests.support.host_builder import HostBuilder
from tests.support.moment import moment
from tests.support.pools import pool
from tests.unit.host.test_vf_stats import ALL, entry, message

_QUIET_S = 3.0
_PATHS = ("/healthz", "/readyz", "/metrics", "/status?devices=0", "/status", "/")


def free_address() -> tuple[str, int]:
    """A local address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        return str(host), int(port)


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[float, bytes]:
    """Seconds and body of one answer, compressed as Prometheus and browsers ask for it."""
    began = time.perf_counter()
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    body = connection.getresponse().read()
    return time.perf_counter() - began, body


def bench_agent(host: HostBuilder, vfs: int, rounds: int) -> list[Figure]:
    """The running agent, without and with HTTP."""
    config = harness.write_config(host, vfs, -(-vfs // harness.VFS_PER_PF))
    told = harness.resources(-(-vfs // harness.VFS_PER_PF))
    each = vfs // len(told)
    folder = host.roots.device_plugins
    with Peer(folder) as kubelet, process.below(host, config) as agent:
        kubelet.all_listed(told, each)
        agent.wait_for("host.watching")
        time.sleep(_QUIET_S)
        without, _ = harness.memory(agent.pid)
    address, port = free_address()
    with (
        Peer(folder) as kubelet,
        process.below(host, config, "--http-address", f"{address}:{port}") as agent,
    ):
        kubelet.all_listed(told, each)
        agent.wait_for("http.listening")
        time.sleep(_QUIET_S)
        listening, _ = harness.memory(agent.pid)
        figures = [
            Figure("http", f"resident, listening, {vfs} VFs", listening, "MiB", without, "no HTTP")
        ]
        connection = http.client.HTTPConnection(address, port, timeout=60)
        for path in _PATHS:
            answers = [ask(connection, path) for _ in range(rounds)]
            median = statistics.median(seconds for seconds, _ in answers)
            size = len(answers[-1][1]) / 1024
            figures.append(
                Figure("http", f"GET {path}, {vfs} VFs, {size:.0f} KiB sent", median * 1e3, "ms")
            )
        connection.close()
        asked, _ = harness.memory(agent.pid)
        figures.append(
            Figure("http", f"resident, asked, {vfs} VFs", asked, "MiB", without, "no HTTP")
        )
    return figures


def bench_traffic(host: HostBuilder, rounds: int) -> list[Figure]:
    """The metrics per VF, from the kernel's message to the text."""
    snapshot = scan(host.roots)
    pools = [pool(f"net{n}", {"pfNames": [f"ens{n}"]}) for n in range(len(snapshot.pfs))]
    state = moment(snapshot, *pools)
    count = harness.VFS_PER_PF - 1
    answer = message(*(entry(vf, ALL) for vf in range(count)))
    carried = {pf: {vf: VfTraffic(1, 2, 3, 4) for vf in range(count)} for pf in snapshot.pfs}
    counters = Counters()

    def median_ms(work: object) -> float:
        assert callable(work)
        return statistics.median(harness.timed(work) for _ in range(rounds)) * 1e3

    size = len(gzip.compress(exposition(state, counters, carried).body, 1)) / 1024
    without = median_ms(lambda: exposition(state, counters))
    with_them = median_ms(lambda: exposition(state, counters, carried))
    name = f"per-VF metrics as text, {len(carried)} PFs, {size:.0f} KiB sent"
    return [
        Figure(
            "http", "per-VF counters of a PF decoded", median_ms(lambda: traffic_of(answer)), "ms"
        ),
        Figure("http", name, with_them, "ms", without, "without them"),
    ]


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """One size."""
    vfs, rounds = (256, 3) if quick else (4096, 10)
    harness.note(f"http: {vfs} VFs")
    host = harness.laid_out(vfs)
    return Result((*bench_agent(host, vfs, rounds), *bench_traffic(host, rounds)))


if __name__ == "__main__":
    harness.run_alone("bench_http", measure)

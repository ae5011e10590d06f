"""From exec to registration and the first list, as a process; floors in the same run.

With 16 VFs the floor is a Python that only imports ``agent.daemon``; with more, a process that
imports it, scans and assigns.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
from pathlib import Path

import attrs

from tests.bench import harness
from tests.bench.harness import Curve, Figure, Result
from tests.bench.peer import Peer
from tests.bench.process import Machine
from tests.support.host_builder import HostBuilder

_AGENT = Path(__file__).parents[2] / "agent"
_IMPORT = "import agent.daemon"
_WORK = """
import sys, time
from pathlib import Path
from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.pools.assign import assign
from agent.roots import Roots
config = load_config(Path(sys.argv[2]).read_bytes(), source="", default_prefix="x.org").config
began = time.perf_counter()
snapshot = scan(Roots(Path(sys.argv[1])))
scanned = time.perf_counter()
assign(snapshot, config)
print(scanned - began, time.perf_counter() - scanned)
"""


@attrs.frozen
class Start:
    """Seconds from exec."""

    registered: float
    listed: float


def start(host: HostBuilder, config: Path, pools: int, vfs: int) -> Start:
    """One start beside a kubelet that is there already."""
    told = harness.resources(pools)
    with (
        Machine(host) as machine,
        Peer(host.roots.device_plugins) as kubelet,
        machine.agent(config) as agent,
    ):
        listed = kubelet.all_listed(told, vfs // pools)
        registered = max(map(kubelet.registered, told))
        return Start(registered - agent.began, listed - agent.began)


def scan_and_assign(host: HostBuilder, config: Path) -> float:
    """Seconds of both in a process that did nothing before."""
    done = subprocess.run(
        [sys.executable, "-c", _WORK, str(host.root), str(config)],
        check=True,
        capture_output=True,
        text=True,
    )
    return sum(map(float, done.stdout.split()))


def bare_import() -> float:
    """Seconds from exec to the end of a process that imports what ``run`` imports."""
    command = [sys.executable, "-c", _IMPORT]
    return harness.timed(lambda: subprocess.run(command, check=True))


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """Starts of all sizes in turn with their floors."""
    sizes = {16: 1, 256: 1, 1024: 4} if quick else {16: 1, 256: 1, 1024: 4, 4096: 16, 16384: 64}
    rounds = 3 if quick else 7
    compileall.compile_dir(_AGENT, quiet=2)  # as images have it
    figures: list[Figure] = []
    line: list[tuple[float, float]] = []
    floors: list[tuple[float, float]] = []
    for vfs, pools in sizes.items():
        harness.note(f"start: {vfs} VFs")
        host = harness.laid_out(vfs)
        config = harness.write_config(host, vfs, pools, drivers=["iavf"])
        bare, work, starts = [], [], []
        for _ in range(rounds if vfs <= 4096 else 3):
            bare.append(bare_import())
            work.append(scan_and_assign(host, config))
            starts.append(start(host, config, pools, vfs))
        taken = statistics.median(s.registered for s in starts)
        first_list = statistics.median(s.listed for s in starts)
        floor = statistics.median(bare) if vfs < 4096 else statistics.median(work) + 0.15
        figures.append(_row(vfs, pools, taken, floor))
        label = f"exec to the first list, {vfs} VFs"
        figures.append(Figure("start", label, first_list * 1e3, "ms"))
        line.append((vfs, taken * 1e3))
        floors.append((vfs, (statistics.median(bare) + statistics.median(work)) * 1e3))
    curve = Curve("Start to registered", "VFs", "ms", {"agent": line, "agent, floor": floors})
    return Result(tuple(figures), (curve,))


def _row(vfs: int, pools: int, taken: float, floor: float) -> Figure:
    name = f"exec to registered, {vfs} VFs in {pools} pool{'s' * (pools > 1)}"
    value, bound = taken * 1e3, floor * 1e3
    if vfs == 16:
        aim, met = "at most 1.5 times the floor", taken <= 1.5 * floor
        return Figure("start", name, value, "ms", bound, _IMPORT, aim, met)
    if vfs == 4096:
        what = "scan + assign + 150 ms"
        return Figure("start", name, value, "ms", bound, what, "at most the floor", taken <= floor)
    return Figure(
        "start", name, value, "ms", bound, _IMPORT if vfs < 4096 else "scan + assign + 150 ms"
    )


if __name__ == "__main__":
    harness.run_alone("bench_start", measure)

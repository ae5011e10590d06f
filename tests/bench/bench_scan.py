"""How far a scan is from the floor: the same files read by a bare loop, in the same run.

Hosts of PFs with 256 VFs each, in memory. The floor opens, reads and closes each attribute and
reads each link that the scan reads, by their public names below ``/sys``, and does nothing else: no
listing, no probing for what is absent, no record made. Processor time, since only that can be
compared on a shared machine, of rounds in which both take turns, and of these the one whose ratio
is the median. Rescans after a hint are set against a scan of everything, and the loop's longest
wait against that beside a thread that sleeps.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from agent.discovery.scan import Scanner, scan
from agent.watch.rescan import in_daemon_thread
from tests.bench import harness, stall
from tests.bench.harness import Curve, Figure, Result
from tests.support.host_builder import HostBuilder
from tests.support.host_calls import HostCalls, host_calls

_SHAPES = ("vfio", "netdev", "rdma")
_ROUNDS = 9
_PFS = 16
_MOST_RATIO = 1.5
_MOST_GROWTH = 1.25
_MOST_PARTIAL = 5.0
_MOST_STALL_MS = 10.0
_STALL_ROUNDS = 4


def bare(calls: HostCalls) -> None:
    """The floor."""
    for path in calls.files:
        file = os.open(path, os.O_RDONLY)
        os.read(file, 256)
        os.close(file)
    for path in calls.links:
        os.readlink(path)


def rounds_s(*runs: Callable[[], object]) -> list[tuple[float, ...]]:
    """Processor times of some rounds in which the runs take turns."""
    rounds = []
    for _ in range(_ROUNDS):
        times = []
        for run in runs:
            gc.collect()
            began = time.process_time()
            run()
            times.append(time.process_time() - began)
        rounds.append(tuple(times))
    return rounds


def typical_s(floor: Callable[[], object], run: Callable[[], object]) -> tuple[float, float]:
    """Both times of the round whose ratio is the median.

    The speed of a shared machine changes between rounds, and within one does so less.
    """
    rounds = sorted(rounds_s(floor, run), key=lambda r: r[1] / r[0])
    floor_s, run_s = rounds[len(rounds) // 2]
    return floor_s, run_s


def system_calls(calls: HostCalls) -> int:
    """Opens with their closes, reads, links, probes and listings (two reads and one seek each)."""
    counts = calls.counts
    return (
        2 * counts["open"]
        + len(calls.files)
        + counts["readlink"]
        + counts["access"]
        + 3 * counts["listdir"]
    )


def whole(vfs: int, shape: str) -> tuple[Figure, Figure]:
    """A scan of everything, and the system calls that it makes for each VF."""
    host = harness.laid_out(vfs, shape)
    with host_calls() as asked:
        scan(host.roots)
    floor, took = typical_s(lambda: bare(asked), lambda: scan(host.roots))
    return (
        Figure(
            "scan",
            f"{vfs} VFs, {shape}",
            took * 1e3,
            "ms",
            floor * 1e3,
            "the same files in a bare loop",
            f"at most {_MOST_RATIO} times the floor",
            took <= _MOST_RATIO * floor,
        ),
        Figure(
            "scan",
            f"system calls for each of {vfs} VFs, {shape}",
            system_calls(asked) / vfs,
            "",
            (3 * len(asked.files) + len(asked.links)) / vfs,
            "those of the bare loop",
        ),
    )


def growth(wholes: dict[int, Figure], shape: str) -> Figure:
    """What a VF costs on the largest host against one of the middle, both in floors."""
    sizes = tuple(wholes)
    first, last = sizes[len(sizes) // 2 - 1], sizes[-1]
    in_floors = {vfs: figure.value / (figure.floor or 1) for vfs, figure in wholes.items()}
    ratio = in_floors[last] / in_floors[first]
    return Figure(
        "scan",
        f"a VF among {last} against {first}, {shape}, in floors",
        ratio,
        "",
        aim=f"linear: at most {_MOST_GROWTH}",
        met=ratio <= _MOST_GROWTH,
    )


def rescans(vfs: int, shape: str) -> list[Figure]:
    """Rescans after a hint, in percent of a scan of everything on the same host."""
    host = harness.laid_out(vfs, shape)
    scanner = Scanner(host.roots)
    scanner.scan()
    pf = harness.pf_address(0)
    functions = host.vfs(pf)
    changes: dict[str, frozenset[str]] = {
        "no function": frozenset(),
        "one VF": frozenset(functions[:1]),
        "one PF": frozenset({pf}),
        f"a PF and its {len(functions)} VFs": frozenset({pf, *functions}),
    }
    runs = [lambda t=touched: scanner.scan(touched=t) for touched in changes.values()]
    rounds = rounds_s(lambda: scan(host.roots), *runs)
    percents = [median(r[n] / r[0] * 100 for r in rounds) for n in range(1, len(runs) + 1)]
    with host_calls() as asked:
        scan(host.roots)
    calls = system_calls(asked)
    figures = []
    for (name, touched), percent in zip(changes.items(), percents, strict=True):
        share = (len(touched) > 1) * 100 / _PFS
        figures.append(
            Figure(
                "scan",
                f"rescan of {name} of {vfs} VFs, {shape}",
                percent,
                "%",
                share or None,
                "its share of the functions" if share else "",
                "" if share else f"at most {_MOST_PARTIAL:.0f} % of a whole scan",
                None if share else percent <= _MOST_PARTIAL,
            )
        )
        with host_calls() as asked:
            scanner.scan(touched=touched)
        share_of_calls = system_calls(asked) / calls * 100
        figures.append(Figure("scan", f"its system calls, {shape}", share_of_calls, "%"))
    return figures


def stalls(host: HostBuilder, vfs: int) -> list[Figure]:
    """The loop's longest wait during a first scan, and one that finds everything as it was.

    The least of some rounds: what the process does to its own loop comes back in each. The agent
    freezes what is there before each of the two.
    """
    later = Scanner(host.roots)
    later.scan()
    gc.freeze()
    scanners: dict[str, Callable[[], Scanner]] = {
        "first scan": lambda: Scanner(host.roots),
        "later scan": lambda: later,
    }
    figures = []
    for name, scanner in scanners.items():
        worst, floor = [], []
        for _ in range(_STALL_ROUNDS):
            run, began = scanner().scan, time.perf_counter()
            worst.append(stall.longest_s(partial(in_daemon_thread, run)))
            floor.append(stall.floor_s(time.perf_counter() - began))
        figures.append(
            Figure(
                "scan",
                f"the loop's longest wait, {name} of {vfs} VFs",
                min(worst) * 1e3,
                "ms",
                min(floor) * 1e3,
                "beside a thread that sleeps",
                f"at most {_MOST_STALL_MS:.0f} ms",
                min(worst) * 1e3 <= _MOST_STALL_MS,
            )
        )
    gc.unfreeze()
    return figures


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """All sizes and shapes, then what follows a hint, then the loop."""
    sizes = (64, 256, 1024) if quick else (256, 1024, 4096, 16384)
    figures: list[Figure] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for shape in _SHAPES:
        wholes: dict[int, Figure] = {}
        for vfs in sizes if shape == "netdev" else sizes[:-1]:
            harness.note(f"scan: {vfs} VFs, {shape}")
            wholes[vfs], calls = whole(vfs, shape)
            figures += [wholes[vfs], calls]
        figures.append(growth(wholes, shape))
        lines[shape] = [(vfs, f.value) for vfs, f in wholes.items()]
        lines[f"{shape}, floor"] = [(vfs, f.floor or 0.0) for vfs, f in wholes.items()]
        if shape == "netdev" or not quick:
            figures += rescans(_PFS * harness.VFS_PER_PF, shape)
    figures += stalls(harness.laid_out(sizes[-1]), sizes[-1])
    curve = Curve("Scan of the host", "VFs", "processor time (ms)", lines)
    return Result(tuple(figures), (curve,))


if __name__ == "__main__":
    harness.run_alone("bench_scan", measure)

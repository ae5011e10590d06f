"""What all benchmarks share: hosts in memory, the agent as a process, figures as records.

Each benchmark is a module with a ``measure(quick)`` that returns a :class:`Result`; run alone it
prints a table, and ``report.py`` runs all of them and writes docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp

import attrs

from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder

VFS_PER_PF = 256
PREFIX = "example.com"
HOSTS = "SRIOV_AGENT_BENCH_HOSTS"
"""Names the folder in which laid-out hosts are kept from one benchmark to the next."""
_HARDWARE = attrs.evolve(E810, total_vfs=VFS_PER_PF)
_MIB = 1024


@attrs.frozen
class Figure:
    """One row of the table."""

    stage: str
    name: str
    value: float
    unit: str
    floor: float | None = None
    """What the same machine needed in the same run for the unavoidable part."""
    floor_name: str = ""
    aim: str = ""
    met: bool | None = None
    """Whether the aim holds in this run; None where it has none."""


@attrs.frozen
class Curve:
    """How one figure grows: (size, value) points with a name; ``x`` and ``y`` name the axes."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]


@attrs.frozen
class Result:
    """What one benchmark found."""

    figures: tuple[Figure, ...]
    curves: tuple[Curve, ...] = ()


def run_alone(name: str, measure: Callable[[bool], Result]) -> None:
    """The command line of one benchmark: ``--quick`` and ``--json FILE``."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}")
    parser.add_argument("--quick", action="store_true", help="few rounds and small hosts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    own_folder = HOSTS not in os.environ
    if own_folder:
        os.environ[HOSTS] = mkdtemp(prefix="b-", dir="/dev/shm")
    try:
        result = measure(options.quick)
    finally:
        if own_folder:
            shutil.rmtree(os.environ[HOSTS])
    print("\n".join(table(result.figures)))
    if options.json:
        options.json.write_text(json.dumps(attrs.asdict(result), indent=1))


def table(figures: Iterable[Figure]) -> list[str]:
    """The rows as aligned text."""
    return [
        f"{f.stage:<12}{f.name:<46}{shown(f.value):>9} {f.unit:<5}"
        + (f" floor {shown(f.floor):>8}" if f.floor is not None else " " * 15)
        + (f"  {'ok' if f.met else 'MISSED'}: {f.aim}" if f.met is not None else "")
        for f in figures
    ]


def shown(value: float) -> str:
    """Three digits that matter."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def laid_out(vfs: int, shape: str = "netdev") -> HostBuilder:
    """A host of PFs ``ens0`` ... with up to 256 VFs each, made once; its kubelet folder is empty.

    ``shape``: VFs with a ``netdev``, on ``vfio``, or with an ``rdma`` device as well.
    """
    root = Path(os.environ[HOSTS]) / f"{shape[0]}{vfs}"
    fresh = not root.exists()
    host = HostBuilder(root)
    for number in range(-(-vfs // VFS_PER_PF) if fresh else 0):
        count = min(VFS_PER_PF, vfs - number * VFS_PER_PF)
        pf = host.pf(pf_address(number), f"ens{number}", _HARDWARE, numa=number % 2)
        made = host.add_vfs(pf, count, E810.vf.vfio if shape == "vfio" else E810.vf)
        for index, vf in enumerate(made if shape == "rdma" else ()):
            host.rdma(vf, f"mlx5_{number}_{index}")
    for folder in (host.root / "var", host.root / "run"):
        shutil.rmtree(folder, ignore_errors=True)
    host.roots.device_plugins.mkdir(parents=True)
    return host


def pf_address(number: int) -> str:
    """Where the PF of this number is: each takes up to three buses with its VFs."""
    return f"{number // 64:04x}:{number % 64 * 3 + 1:02x}:00.0"


def write_config(host: HostBuilder, vfs: int, pools: int, **selectors: object) -> Path:
    """A configuration that deals a host's VFs out to ``pools`` pools, as whole PFs or in ranges."""
    pfs = -(-vfs // VFS_PER_PF)
    shares: list[list[str]] = [[] for _ in range(pools)]
    for number in range(max(pools, pfs)):
        pf = f"ens{number % pfs}"
        if pools > pfs:
            parts = -(-(pools - number % pfs) // pfs)
            size = min(VFS_PER_PF, vfs) // parts
            first = number // pfs * size
            pf = f"{pf}#{first}-{first + size - 1}"
        shares[number % pools].append(pf)
    config = host.root / "config.json"
    resources = [
        {
            "resourceName": name,
            "resourcePrefix": PREFIX,
            "selectors": {"pfNames": share, **selectors},
            "health": {"recoveryHoldSeconds": 0},
        }
        for name, share in zip(names(pools), shares, strict=True)
    ]
    config.write_text(json.dumps({"resourceList": resources}))
    return config


def names(pools: int) -> list[str]:
    """The pools' resource names without their prefix."""
    return [f"net{number}" for number in range(pools)]


def resources(pools: int) -> list[str]:
    """The pools' full resource names."""
    return [f"{PREFIX}/{name}" for name in names(pools)]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; the worst of fewer than 100 values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile of seconds, in milliseconds."""
    return statistics.median(values) * 1e3, p99(values) * 1e3


def memory(pid: int) -> tuple[float, float]:
    """Resident and private memory of a process (MiB)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name: int(rest.split()[0]) for name, _, rest in (li.partition(":") for li in lines)}
    return kib["Rss"] / _MIB, (kib["Private_Clean"] + kib["Private_Dirty"]) / _MIB


def work(pid: int) -> tuple[int, float]:
    """(times woken up, CPU seconds) of a process so far, of all its threads."""
    woken, cpu_ns = 0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        woken += int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])
        cpu_ns += int((task / "schedstat").read_text().split()[0])
    return woken, cpu_ns / 1e9


def timed(work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def note(text: str) -> None:
    """Say what is under way, beside the table."""
    print(text, file=sys.stderr, flush=True)

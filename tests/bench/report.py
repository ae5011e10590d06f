"""Runs every benchmark and keeps what they found: ``docs/performance.md`` and its pictures.

``python -m tests.bench.report`` prints the table; ``--write`` rewrites the page too, ``--quick``
takes few rounds and small hosts, and names of benchmarks run only these.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.curves import svg
from tests.bench.harness import HOSTS, Curve, Figure, Result, note, shown, table

BENCHES = (
    "bench_scan",
    "bench_assign",
    "bench_start",
    "bench_links",
    "bench_allocate",
    "bench_preference",
    "bench_memory",
    "bench_idle",
    "bench_http",
)
_DOCS = Path(__file__).parents[2] / "docs"
_PAGE = _DOCS / "performance.md"
_PICTURES = _DOCS / "pictures"
_STAGES = {
    "scan": "Scan of the host",
    "assign": "Assignment of devices to pools",
    "start": "Start",
    "link": "From a carrier change to kubelet",
    "allocate": "Allocate",
    "prefer": "GetPreferredAllocation",
    "memory": "Memory",
    "idle": "Idle",
    "http": "HTTP, where it is on",
}


def main() -> None:
    """Run, print, and write where asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.report")
    parser.add_argument("--quick", action="store_true", help="few rounds and small hosts")
    parser.add_argument("--write", action="store_true", help="rewrite docs/performance.md")
    parser.add_argument("bench", nargs="*", default=BENCHES, help="only these")
    options = parser.parse_args()
    began = time.monotonic()
    folder = Path(mkdtemp(prefix="b-", dir="/dev/shm"))
    try:
        results = [run(name, folder, quick=options.quick) for name in options.bench]
    finally:
        shutil.rmtree(folder)
    figures = tuple(f for result in results for f in result.figures)
    curves = tuple(c for result in results for c in result.curves)
    print("\n".join(table(figures)))
    missed = sum(f.met is False for f in figures)
    note(f"{len(figures)} figures in {time.monotonic() - began:.0f} s, {missed} aims missed")
    if options.write:
        write(Result(figures, curves), quick=options.quick)


def run(name: str, folder: Path, *, quick: bool) -> Result:
    """One benchmark in a process of its own, on hosts that the others have laid out."""
    found = folder / f"{name}.json"
    command = [sys.executable, "-m", f"tests.bench.{name}", "--json", str(found)]
    command += ["--quick"] if quick else []
    env = {**os.environ, HOSTS: str(folder)}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    read = json.loads(found.read_text())
    return Result(
        tuple(Figure(**figure) for figure in read["figures"]),
        tuple(Curve(**curve) for curve in read["curves"]),
    )


def write(result: Result, *, quick: bool) -> None:
    """The page and its pictures."""
    _PICTURES.mkdir(exist_ok=True)
    pictures = []
    for curve in result.curves:
        name = "performance-" + "-".join(curve.title.lower().split()) + ".svg"
        (_PICTURES / name).write_text(svg(curve))
        pictures.append(f"![{curve.title}: {curve.y} by {curve.x}](pictures/{name})")
    sections = [section(title, stage, result.figures) for stage, title in _STAGES.items()]
    introduction = _INTRODUCTION.format(machine=machine(), rounds=_QUICK if quick else _WHOLE)
    parts = (introduction, *filter(None, sections), _CURVES, *pictures)
    _PAGE.write_text("\n\n".join(part.strip() for part in parts) + "\n")


def section(title: str, stage: str, figures: Sequence[Figure]) -> str:
    """One stage as a table; empty where nothing was measured."""
    rows = [row(figure) for figure in figures if figure.stage == stage]
    if not rows:
        return ""
    head = "| what | figure | floor | aim | |\n|---|---:|---:|---|---|\n"
    return f"## {title}\n\n{head}" + "\n".join(rows)


def row(figure: Figure) -> str:
    """One line of a table."""
    floor = ""
    if figure.floor is not None:
        floor = f"{shown(figure.floor)} {figure.unit}"
        floor += f" ({figure.floor_name})" if figure.floor_name else ""
    met = {True: "met", False: "**missed**", None: ""}[figure.met]
    value = f"{shown(figure.value)} {figure.unit}"
    return f"| {figure.name} | {value} | {floor} | {figure.aim} | {met} |"


def machine() -> str:
    """The machine in words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((li.partition(": ")[2] for li in lines if li.startswith("model name")), "unknown")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    virtual = any(li.startswith("flags") and " hypervisor" in li for li in lines)
    return (
        f"{os.cpu_count()} cores of {model.strip()}{', a virtual machine,' * virtual} with "
        f"{memory:.0f} GiB of memory, Linux {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


_INTRODUCTION = """
# Performance

`tox -e bench -- --write` measures and writes this page; `tox -e bench -- --quick` is a look at
it in less than a minute. Both need root for network namespaces.

Measured on {machine}. Times of one machine say little about another; what can be compared is a
figure with its floor, which the same run measured in turn with it: the part that no agent could do
without. {rounds}

Hosts are laid out in memory, with PFs of up to 256 VFs, each with a driver, an IOMMU group and,
unless it says vfio, a netdev. The agent is a process of its own, and so is kubelet: a gRPC server
and client on gRPC's C library. For links, memory and idle the laid-out tree lies over `/sys`, and
the cables are veth pairs that the agent hears of from the kernel. What was tried and did not help
is in the decision records about speed and memory in `adr/`.
"""
_WHOLE = "Figures are medians of several rounds unless they say otherwise."
_QUICK = "This was a quick run: few rounds, small hosts, no more than a look."
_CURVES = """
## How it grows
"""

if __name__ == "__main__":
    main()

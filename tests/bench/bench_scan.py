"""How far a scan is from the floor: the same files read by a bare loop, in the same run.

``python tests/bench/bench_scan.py [functions ...]`` lays hosts of PFs with up to 256 functions each
out in memory and prints, for each size and kind of VFs, processor times (best of some rounds, taken
in turn) and ratios. The floor opens, reads and closes each attribute and reads each link that the
scan reads, by their public names below ``/sys``, and does nothing else: no listing, no probing for
what is absent, no record made. Processor time, since only that can be compared on a shared machine.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from agent.discovery.scan import scan
from agent.host.hardware import E810
from agent.host.layout import HostBuilder
from tests.support.host_calls import HostCalls, host_calls

_PER_PF = 256
_ROUNDS = 15
SHAPES = ("vfio", "netdev", "rdma")


def lay_out(root: Path, functions: int, shape: str) -> HostBuilder:
    """PFs with VFs that are all on vfio-pci, or all have a netdev, or an RDMA device too."""
    host = HostBuilder(root)
    for number in range(-(-functions // _PER_PF)):
        pf = f"{number // 64:04x}:{number % 64 * 3 + 1:02x}:00.0"
        host.pf(pf, f"ens{number}", E810)
        count = min(_PER_PF, functions - number * _PER_PF) - 1
        vfs = host.add_vfs(pf, count, E810.vf.vfio if shape == "vfio" else E810.vf)
        for index, vf in enumerate(vfs if shape == "rdma" else ()):
            host.rdma(vf, f"mlx5_{number}_{index}")
    return host


def bare(calls: HostCalls) -> None:
    """The floor."""
    for path in calls.files:
        file = os.open(path, os.O_RDONLY)
        os.read(file, 256)
        os.close(file)
    for path in calls.links:
        os.readlink(path)


def best_s(*runs: Callable[[], object]) -> list[float]:
    """The least processor time of each, over rounds in which they take turns."""
    best = [float("inf")] * len(runs)
    for _ in range(_ROUNDS):
        for place, run in enumerate(runs):
            gc.collect()
            began = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - began)
    return best


def measure(size: int, shape: str) -> str:
    """One line of the table."""
    root = Path(mkdtemp(prefix="bench-scan-", dir="/dev/shm"))
    try:
        host = lay_out(root, size, shape)
        with host_calls() as asked:
            scan(host.roots)
        floor_s, scan_s = best_s(lambda: bare(asked), lambda: scan(host.roots))
        return (
            f"{size:9}  {shape:7}{len(asked.files):7}{len(asked.links):7}"
            f"{asked.counts['access']:8}{floor_s * 1e3:10.1f}{scan_s * 1e3:9.1f}"
            f"{scan_s / floor_s:8.2f}{scan_s / size * 1e6:13.1f}"
        )
    finally:
        shutil.rmtree(root)


def main(sizes: list[int]) -> None:
    """Print one line per size and shape."""
    print("functions  VFs      files  links  probes  floor ms  scan ms   ratio  us/function")
    for size in sizes:
        for shape in SHAPES:
            print(measure(size, shape), flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [256, 1024, 4096])

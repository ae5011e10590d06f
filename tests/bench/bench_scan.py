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
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import attrs

from agent.discovery.scan import scan
from agent.host import sysfs
from agent.host.hardware import E810
from agent.host.layout import HostBuilder

_PER_PF = 256
_ROUNDS = 15
SHAPES = ("vfio", "netdev", "rdma")


@attrs.define
class Recorder:
    """Stands in for :mod:`os` in the one module that reads the host, and notes what it is asked."""

    files: list[str] = attrs.field(factory=list)
    links: list[str] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    _folders: dict[int, str] = attrs.field(factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *, dir_fd: int | None = None) -> int:
        self.counts["open"] += 1
        descriptor = os.open(path, flags, dir_fd=dir_fd)
        if flags & os.O_DIRECTORY:
            self._folders[descriptor] = self._named(path, dir_fd)
        else:
            self.files.append(self._named(path, dir_fd))
        return descriptor

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> str:
        self.counts["readlink"] += 1
        target = os.readlink(path, dir_fd=dir_fd)
        self.links.append(self._named(path, dir_fd))
        return target

    def listdir(self, path: int) -> list[str]:
        self.counts["listdir"] += 1
        return os.listdir(path)

    def access(self, path: Any, mode: int, *, dir_fd: int | None = None) -> bool:
        self.counts["access"] += 1
        return os.access(path, mode, dir_fd=dir_fd)

    def _named(self, path: Any, dir_fd: int | None) -> str:
        return str(path) if dir_fd is None else f"{self._folders[dir_fd]}/{path}"


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


def recorded(host: HostBuilder) -> Recorder:
    """What one scan asks the host for."""
    recorder = Recorder()
    sysfs.os = recorder  # type: ignore[attr-defined]
    try:
        scan(host.roots)
    finally:
        sysfs.os = os  # type: ignore[attr-defined]
    return recorder


def bare(recorder: Recorder) -> None:
    """The floor."""
    for path in recorder.files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.read(file, 256)
        except OSError:
            pass
        os.close(file)
    for path in recorder.links:
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
        asked = recorded(host)
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

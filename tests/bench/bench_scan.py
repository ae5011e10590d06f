"""How far a scan is from the floor: the same files read by a bare loop, in the same run.

``python tests/bench/bench_scan.py [functions ...]`` lays hosts of PFs with 256 VFs out in memory
and prints, for each size, the medians and ratios. Two floors: *named* opens, reads and closes each
file by its whole path, as the simplest loop would; *relative* does the scan's own calls, listings
and probes too, from open folders, and nothing with what they return.
"""

from __future__ import annotations

import os
import shutil
import statistics
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

_VFS_PER_PF = 256
_ROUNDS = 7


@attrs.define
class Recorder:
    """Stands in for :mod:`os` in the one module that reads the host, and notes what it is asked."""

    files: list[str] = attrs.field(factory=list)
    links: list[str] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *, dir_fd: int | None = None) -> int:
        self.counts["open"] += 1
        whole = self._whole(path, dir_fd)
        descriptor = os.open(path, flags, dir_fd=dir_fd)
        if not flags & os.O_DIRECTORY:
            self.files.append(whole)
        return descriptor

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> str:
        self.counts["readlink"] += 1
        target = os.readlink(path, dir_fd=dir_fd)
        self.links.append(self._whole(path, dir_fd))
        return target

    def listdir(self, path: int) -> list[str]:
        self.counts["listdir"] += 1
        return os.listdir(path)

    def access(self, path: Any, mode: int, *, dir_fd: int | None = None) -> bool:
        self.counts["access"] += 1
        return os.access(path, mode, dir_fd=dir_fd)

    @staticmethod
    def _whole(path: Any, dir_fd: int | None) -> str:
        return str(path) if dir_fd is None else f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{path}"


def host(root: Path, functions: int) -> HostBuilder:
    """PFs of 256 VFs each; half of the VFs with a netdev, half on vfio-pci."""
    builder = HostBuilder(root)
    pfs = max(1, functions // _VFS_PER_PF)
    for number in range(pfs):
        vfs = min(_VFS_PER_PF, functions - number * _VFS_PER_PF) - 1
        bdf = builder.pf(f"{number // 64:04x}:{(number % 64) * 3 + 1:02x}:00.0", f"ens{number}", E810)
        builder.add_vfs(bdf, vfs, E810.vf if number % 2 else E810.vf.vfio)
    return builder


def recorded(builder: HostBuilder) -> Recorder:
    """What one scan asks the host for."""
    recorder = Recorder()
    sysfs.os = recorder  # type: ignore[attr-defined]
    try:
        scan(builder.roots)
    finally:
        sysfs.os = os  # type: ignore[attr-defined]
    return recorder


def bare(recorder: Recorder) -> None:
    """The floor: the files and links of one scan, by their whole names."""
    for path in recorder.files:
        file = os.open(path, os.O_RDONLY)
        os.read(file, 4096)
        os.close(file)
    for path in recorder.links:
        os.readlink(path)


def median_s(run: Callable[[], object]) -> float:
    """Median of some rounds, after one to warm up."""
    run()
    taken = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def main(sizes: list[int]) -> None:
    """Print one line per size."""
    print("functions  files  links  lists  probes   floor ms   scan ms   ratio   us/function")
    for size in sizes:
        root = Path(mkdtemp(prefix="bench-scan-", dir="/dev/shm"))
        try:
            builder = host(root, size)
            asked = recorded(builder)
            floor_s = median_s(lambda asked=asked: bare(asked))
            scan_s = median_s(lambda builder=builder: scan(builder.roots))
            print(
                f"{size:9}  {len(asked.files):5}  {len(asked.links):5}  {asked.counts['listdir']:5}"
                f"  {asked.counts['access']:6}  {floor_s * 1e3:9.1f} {scan_s * 1e3:9.1f}"
                f"   {scan_s / floor_s:5.2f}   {scan_s / size * 1e6:11.1f}"
            )
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [256, 1024, 4096])

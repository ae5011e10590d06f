"""Figures of the image for docs/image.md: size, start to registered, memory, on a real node.

python -m tests.cluster.measure [STARTS]
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from tests.cluster import build
from tests.cluster.rig import KERNEL_VFS, NAMESPACE, SELECTOR, Rig, set_up
from tests.kubelet.node import clustered

_POOLS = [
    {"resourceName": "net", "selectors": {"drivers": ["iavf"]}},
    {"resourceName": "dpdk", "selectors": {"drivers": ["vfio-pci"]}},
]
_WAYS = ("watcher", "legacy")


@attrs.frozen
class Start:
    """One start of the container: moments in seconds after it, memory in MiB when all is loaded."""

    serving_s: float
    registered_s: float
    resident_mib: float
    own_mib: float
    """Not shared with other processes of the image."""


def starts(rig: Rig, way: str, cpu: str, count: int) -> Iterator[Start]:
    """Start the agent again and again, by deleting its pod."""
    values = {
        "config": {"resourceList": _POOLS},
        "kubelet": {"registration": way},
        "resources": {"requests": {"cpu": cpu}},
    }
    rig.helm("install", values=values)
    for _ in range(count):
        rig.allocatable("intel.com/net", KERNEL_VFS)
        rig.cluster.control_plane.kubectl(
            *("delete", "pod", f"--selector={SELECTOR}", f"--namespace={NAMESPACE}")
        )
        pod = rig.pod(SELECTOR)
        for event in ("agent.ready", "netlink.open", "http.listening"):
            rig.said(pod, event)
        log, process = rig.log(pod), rig.process(pod)
        began = _began(process)
        registered = [_moment(line) for line in log.splitlines() if "plugin.registered" in line]
        serving = next(_moment(line) for line in log.splitlines() if "pool.assigned" in line)
        memory = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
        yield Start(
            serving - began,
            max(registered) - began,
            _mib(memory, "Rss"),
            _mib(memory, "Private_Clean") + _mib(memory, "Private_Dirty"),
        )
    rig.uninstall()


def _began(process: int) -> float:
    """When the container's first process was made, in seconds since 1970 (to 10 ms)."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(fields[19]) / 100  # proc(5): starttime, the 22nd; USER_HZ


def _moment(line: str) -> float:
    return datetime.fromisoformat(line.split(maxsplit=1)[0]).timestamp()


def _mib(rollup: str, name: str) -> float:
    found = re.search(rf"^{name}: +(\d+) kB", rollup, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def _row(way: str, taken: list[Start]) -> str:
    columns = zip(*map(attrs.astuple, taken), strict=True)
    cells = (f"{statistics.median(c):.2f} ({min(c):.2f} to {max(c):.2f})" for c in columns)
    return f"| {way} | {' | '.join(cells)} |\n"


def _favour_pods() -> None:
    """Put the node's pods first in line for the processor: others may be busy on this machine."""
    groups = Path("/sys/fs/cgroup")
    most = {"cpu/{}/cpu.shares": 262144, "{}/cpu.weight": 10000}  # of version 1 and 2
    for pattern, weight in most.items():
        for file in groups.glob(pattern.format(f"sriov-node-agent-{os.getpid()}-*")):
            file.write_text(str(weight), encoding="ascii")


def main(count: int, requests: list[str]) -> None:
    """Build, start a cluster, measure, print."""
    image = build.built()
    with TemporaryDirectory(prefix="measure-") as folder, clustered(Path(folder)) as cluster:
        archive = build.archived(Path(folder) / "image.tar")
        work = Path(folder) / "rig"
        work.mkdir()
        rig = set_up(cluster, archive, work)
        _favour_pods()
        sizes = {**build.sizes(), "archive": archive.stat().st_size}
        sys.stdout.write(f"{image} {sizes}\nload {Path('/proc/loadavg').read_text('ascii')}")
        for way, cpu in product(_WAYS, requests):
            sys.stdout.write(_row(f"{way}, {cpu}", list(starts(rig, way, cpu, count))))
    sys.stdout.write(f"load {Path('/proc/loadavg').read_text('ascii')}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 7, sys.argv[2:] or ["10m"])

"""The control groups that kubelet fills with pods: a subtree of our own in every hierarchy."""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "sriov-node-agent-"
_NUMBERS = count()


@contextmanager
def own_cgroup() -> Iterator[str]:
    """A control group named after this process, gone again at the end; kubelet's `cgroupRoot`.

    What an earlier process left when it was killed is removed too.
    """
    hierarchies = _hierarchies()
    for left in (found for root in hierarchies for found in root.glob(f"{_PREFIX}*")):
        if not Path("/proc", left.name.removeprefix(_PREFIX).split("-")[0]).exists():
            _remove(left)
    name = f"{_PREFIX}{os.getpid()}-{next(_NUMBERS)}"
    for root in hierarchies:
        (root / name).mkdir()
    try:
        yield f"/{name}"
    finally:
        for root in hierarchies:
            _remove(root / name)


def _hierarchies() -> list[Path]:
    """Where control groups are mounted: one place for version 2, one per controller for 1."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    return sorted({Path(mount[1]) for mount in mounts if mount[2] in {"cgroup", "cgroup2"}})


def _remove(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()

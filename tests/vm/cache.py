"""Where the suite keeps what it downloads and builds: outside the checkout, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PARTIAL = ".partial-"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The suite's own folder in the developer's cache."""
    user = environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    project = environ.get("SRIOV_AGENT_CACHE") or Path(user) / "sriov-node-agent"
    return Path(project).absolute() / "vm"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """The folder `target`, filled by `make` unless an earlier run did.

    `make` gets an empty folder beside the target, which takes the target's name only when `make`
    has returned: a run that was stopped half-way leaves nothing that could be taken for whole.
    One process makes at a time, so leftovers found under the lock belong to nobody.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent):
        if not target.exists():
            for leftover in target.parent.glob(f"{_PARTIAL}*"):
                shutil.rmtree(leftover)
            with TemporaryDirectory(prefix=_PARTIAL, dir=target.parent) as partial:
                whole = Path(partial) / "whole"
                whole.mkdir()
                make(whole)
                whole.rename(target)
    return target

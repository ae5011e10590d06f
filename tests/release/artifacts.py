"""Makes what a release consists of, from a copy of the checkout with a developer's litter in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import attrs

REPOSITORY = Path(__file__).parents[2]
MOMENT = "1700000000"
"""SOURCE_DATE_EPOCH of the builds (s since 1970); any will do, as long as it is the same."""
_NOT_SOURCE = shutil.ignore_patterns(
    "__pycache__",
    ".?*_cache",
    ".git",
    ".hypothesis",
    ".tox",
    ".venv",
    "*.egg-info",
    "build",
    "dist",
)
LITTER = (
    "agent/__pycache__/cli.cpython-311.pyc",
    "agent/.mypy_cache/3.11/agent.json",
    "agent/http/.ruff_cache/x",
    "agent/sriov_node_agent.egg-info/PKG-INFO",
    "tests/__pycache__/conftest.pyc",
    ".hypothesis/examples/x",
    "build/lib/agent/old.py",
)
"""What must not get into anything."""


@attrs.frozen
class Built:
    """The files of a release."""

    wheel: Path
    sdist: Path


def copied(to: Path) -> Path:
    """The checkout's files as they are now, and litter between them."""
    shutil.copytree(REPOSITORY, to, ignore=_NOT_SOURCE, symlinks=True)
    for name in LITTER:
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("litter")
    return to


def unpacked(sdist: Path, to: Path) -> Path:
    """The folder that a source distribution holds."""
    with tarfile.open(sdist) as archive:
        archive.extractall(to, filter="data")
    return next(to.iterdir())


def build(source: Path, to: Path, *what: str, umask: int = 0o022, **env: str) -> Built:
    """Build in ``source`` with the build system at hand; ``what`` is --wheel, --sdist or both."""
    run(
        *(sys.executable, "-m", "build", "--no-isolation", *what),
        *("--outdir", to, source),
        env={"SOURCE_DATE_EPOCH": MOMENT, **env},
        umask=umask,
    )
    return Built(
        wheel=next(to.glob("*.whl"), to / "no.whl"), sdist=next(to.glob("*.tar.gz"), to / "no.tar")
    )


def run(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
    cwd: Path | None = None,
) -> str:
    """What a command printed; fails with all of it where the command does."""
    done = subprocess.run(
        command,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | dict(env or {}),
        umask=umask,
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout

"""The interpreters that a release is tried on, and fresh environments of theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.artifacts import run

VERSIONS = ("3.11", "3.13")


def interpreter(version: str) -> Path:
    """A Python of that version, on PATH or kept by pyenv; skips the test where there is none."""
    for found in _candidates(version):
        if _answers(found, version):
            return found
    pytest.skip(f"no Python {version} on PATH, nor kept by pyenv")


def _candidates(version: str) -> Iterator[Path]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    kept = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    yield from sorted(kept.glob(f"{version}.*/bin/python{version}"), reverse=True)


def _answers(python: Path, version: str) -> bool:
    """Whether it works: pyenv's shims stand on PATH for versions that are not chosen, too."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return told.stdout.strip() == version


class Environment:
    """A virtual environment with nothing in it but pip."""

    def __init__(self, python: Path, folder: Path) -> None:
        run(python, "-m", "venv", folder)
        self.python = folder / "bin/python"
        self.agent = folder / "bin/sriov-agent"

    def pip(self, *arguments: str | Path) -> str:
        """What ``pip`` printed."""
        return run(self.python, "-m", "pip", "--disable-pip-version-check", *arguments)

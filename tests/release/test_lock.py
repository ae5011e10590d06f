"""The locks: exact versions with hashes, that satisfy what pyproject.toml and the tests ask for."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import attrs
import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tests.release.artifacts import REPOSITORY, run

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
ASKED = tuple(Requirement(text) for text in PROJECT["dependencies"])
IMAGE, CI = Path("requirements.lock"), Path("tests/requirements.lock")
LOCKS = pytest.mark.parametrize("lock", [IMAGE, CI], ids=str)
_HASH = re.compile(r"--hash=(\S+)")


@attrs.frozen
class Pin:
    """One requirement of a lock."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def version(self) -> Version:
        """The one version that is allowed."""
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return Version(specifier.version)


def pins(lock: Path) -> dict[NormalizedName, Pin]:
    lines = (REPOSITORY / lock).read_text().replace("\\\n", " ").splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            requirement = Requirement(line.partition(" --hash")[0])
            pin = Pin(requirement, tuple(_HASH.findall(line)))
            found[canonicalize_name(requirement.name)] = pin
    return found


@LOCKS
def test_each_line_of_a_lock_has_one_version_and_hashes(lock: Path) -> None:
    for name, pin in pins(lock).items():
        assert pin.version, name
        assert pin.hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in pin.hashes), name


@LOCKS
def test_a_lock_satisfies_the_requirements_of_the_project(lock: Path) -> None:
    locked = pins(lock)
    for asked in ASKED:
        assert asked.specifier.contains(locked[canonicalize_name(asked.name)].version), asked


def test_ci_tests_what_the_image_gets() -> None:
    image, ci = pins(IMAGE), pins(CI)
    assert {n: ci[n].version for n in image} == {n: p.version for n, p in image.items()}
    assert all(ci[name].hashes == pin.hashes for name, pin in image.items())


@LOCKS
def test_a_lock_names_no_index(lock: Path) -> None:
    assert "://" not in (REPOSITORY / lock).read_text()


@LOCKS
def test_a_lock_says_how_to_create_it_again(lock: Path) -> None:
    assert "tox -e lock" in (REPOSITORY / lock).read_text()[:200]


@LOCKS
def test_a_lock_matches_its_inputs(lock: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lock"
    shutil.copy(REPOSITORY / lock, copy)
    (command,) = (line for line in _commands() if line[-1] == str(lock))
    run(sys.executable, "-m", *command[:-1], copy, cwd=REPOSITORY)
    assert copy.read_text() == (REPOSITORY / lock).read_text(), "run: tox -e lock"


def _commands() -> list[list[str]]:
    """What ``tox -e lock`` runs, without the user's own arguments."""
    part = (REPOSITORY / "tox.ini").read_text().partition("[testenv:lock]")[2].partition("\n[")[0]
    commands = part.partition("commands =")[2].replace("\\\n", " ").strip().splitlines()
    return [
        [w.strip('"') for w in re.findall(r'"[^"]*"|\S+', c) if w != "{posargs}"] for c in commands
    ]

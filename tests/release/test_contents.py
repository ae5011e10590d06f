"""What is in the wheel and in the source distribution, and that each build makes the same."""

from __future__ import annotations

import hashlib
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.release.artifacts import LITTER, REPOSITORY, Built, build, run, unpacked

TOOL = (sys.executable, "-m")


@pytest.fixture(scope="module")
def in_wheel(built: Built) -> frozenset[str]:
    return frozenset(zipfile.ZipFile(built.wheel).namelist())


@pytest.fixture(scope="module")
def in_sdist(built: Built) -> frozenset[str]:
    with tarfile.open(built.sdist) as archive:
        return frozenset(m.name.partition("/")[2] for m in archive.getmembers())


def sources(checkout: Path, folder: str) -> frozenset[str]:
    """Files of the checkout below ``folder``, without the litter."""
    found = (path for path in (checkout / folder).rglob("*") if path.is_file())
    return frozenset(str(path.relative_to(checkout)) for path in found) - set(LITTER)


def test_the_metadata_and_the_readme_are_valid_for_a_package_index(built: Built) -> None:
    run(*TOOL, "twine", "check", "--strict", built.wheel, built.sdist)


def test_the_wheel_has_no_common_mistake(built: Built) -> None:
    run(*TOOL, "check_wheel_contents", built.wheel)


def test_the_wheel_has_the_package_and_nothing_else(
    in_wheel: frozenset[str], checkout: Path
) -> None:
    assert {n for n in in_wheel if ".dist-info/" not in n} == sources(checkout, "agent")


@pytest.mark.parametrize(
    "name",
    [
        "agent/configuration.schema.json",
        "agent/py.typed",
        "agent/rpc/py.typed",
        "agent/rpc/v1beta1/__init__.py",
        "agent/rpc/pluginregistration/__init__.py",
        "agent/rpc/agent/v1/__init__.py",
        "agent/http/page/page.html",
        "agent/http/page/page.css",
        "agent/http/page/page.js",
    ],
)
def test_the_wheel_has_the_data_files(in_wheel: frozenset[str], name: str) -> None:
    assert name in in_wheel


def test_the_wheel_has_the_licence(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/licenses/LICENSE"))
        assert archive.read(name) == (REPOSITORY / "LICENSE").read_bytes()


def test_the_metadata_names_licence_pythons_and_bounded_dependencies(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        told = BytesParser().parsebytes(archive.read(name))
    assert (told["License-Expression"], told["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    for text in told.get_all("Requires-Dist", []):
        operators = {s.operator for s in Requirement(text).specifier}
        assert operators == {">=", "<"}, f"{text} has no lower or no upper bound"


def test_the_source_distribution_has_everything_for_build_and_test(
    in_sdist: frozenset[str], checkout: Path
) -> None:
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tox.ini"}
    wanted |= {"requirements.lock", "Containerfile"}
    assert wanted <= in_sdist
    for folder in ("agent", "protos", "tests/unit", "charts", "docs"):
        assert sources(checkout, folder) <= in_sdist


def test_no_temporary_file_is_packaged(
    in_wheel: frozenset[str], in_sdist: frozenset[str], checkout: Path
) -> None:
    assert all((checkout / name).is_file() for name in LITTER)
    assert not (in_wheel | in_sdist) & set(LITTER)
    assert not [n for n in in_wheel | in_sdist if n.endswith((".pyc", ".orig", ".rej", "~"))]


def test_the_source_distribution_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    source = unpacked(built.sdist, tmp_path / "source")
    again = build(source, tmp_path / "dist", "--wheel")
    assert digest(again.wheel) == digest(built.wheel)


def test_a_second_build_in_another_place_has_the_same_bytes(
    built: Built, checkout: Path, tmp_path: Path
) -> None:
    for path in checkout.rglob("*.py"):
        path.touch()
    elsewhere = checkout.rename(checkout.with_name("another-name"))
    try:
        again = build(
            *(elsewhere, tmp_path, "--wheel", "--sdist"),
            umask=0o077,
            TZ="Asia/Kathmandu",
            PYTHONHASHSEED="7",
            LC_ALL="C",
        )
    finally:
        elsewhere.rename(checkout)
    assert digest(again.wheel) == digest(built.wheel)
    assert digest(again.sdist) == digest(built.sdist)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

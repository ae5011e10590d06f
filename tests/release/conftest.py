from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.release.artifacts import REPOSITORY, Built, build, copied
from tests.release.bill import write_bill
from tests.release.pythons import Environment, interpreter

_KEPT: list[Path] = []
LOCK = REPOSITORY / "requirements.lock"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep", metavar="FOLDER", help="put what was built there, if all is well")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    folder = session.config.getoption("--keep")
    if folder and exitstatus == pytest.ExitCode.OK:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in _KEPT:
            shutil.copy(path, folder)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of this run."""
    return copied(tmp_path_factory.mktemp("source") / "checkout")


@pytest.fixture(scope="session")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """What is released."""
    made = build(checkout, tmp_path_factory.mktemp("dist"), "--wheel", "--sdist")
    _KEPT.extend((made.wheel, made.sdist))
    return made


@pytest.fixture(scope="session")
def locked(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, and below it exactly what the lock names."""
    made = Environment(interpreter("3.13"), tmp_path_factory.mktemp("locked") / "venv")
    made.pip("install", "--require-hashes", "--requirement", LOCK)
    made.pip("install", "--no-deps", "--no-index", built.wheel)
    return made


@pytest.fixture(scope="session")
def sbom(locked: Environment, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list of what is in there, as CycloneDX JSON."""
    path = tmp_path_factory.mktemp("sbom") / "sriov-node-agent.cdx.json"
    write_bill(locked, checkout / "pyproject.toml", path)
    _KEPT.append(path)
    return path

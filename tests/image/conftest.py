"""The built image, and a cluster that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import build
from tests.image.rig import Rig, set_up
from tests.kubelet.conftest import able, pytest_runtest_makereport
from tests.kubelet.node import clustered

__all__ = ["able", "pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def image() -> str:
    """The image, built from this checkout."""
    if reason := build.missing():
        pytest.skip(reason)
    return build.built()


@pytest.fixture(scope="session")
def rig(able: None, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A cluster whose node has the image and a laid-out NIC."""
    archive = build.archived(tmp_path_factory.mktemp("image") / "image.tar")
    work: Path = tmp_path_factory.mktemp("cluster")
    with clustered(work) as cluster:
        yield set_up(cluster, archive, work)

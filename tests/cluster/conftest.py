"""The built image, and one cluster that has it, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import build
from tests.cluster.rig import Rig, set_up
from tests.kubelet.conftest import able, pytest_runtest_makereport
from tests.kubelet.node import Cluster, clustered

__all__ = ["able", "pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def image() -> str:
    """The image, built from this checkout."""
    if reason := build.missing():
        pytest.skip(reason)
    return build.built()


@pytest.fixture(scope="session")
def cluster(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the pinned release whose only node is ready."""
    with clustered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def rig(cluster: Cluster, image: str, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """The cluster, whose node has the image and a laid-out NIC."""
    work = tmp_path_factory.mktemp("image")
    return set_up(cluster, build.archived(work / "image.tar"), work)

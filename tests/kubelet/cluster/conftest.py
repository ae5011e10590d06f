"""The cluster of the second stage: one node with a control plane of its own, for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kubelet.node import Cluster, clustered

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def cluster(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the pinned release whose only node is ready."""
    with clustered(tmp_path_factory.mktemp("cluster")) as running:
        yield running

"""What the tests of the chart share: helm, and the option that writes golden files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.chart.helm import MAJORS, Helm
from tests.support.host_builder import HostBuilder


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-golden`: take what is rendered now as what is wanted."""
    parser.addoption("--write-golden", action="store_true", help="write the chart's golden files")


@pytest.fixture(params=MAJORS, ids=lambda major: f"helm{major}")
def helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Each major version of helm in turn."""
    return Helm(request.param, tmp_path_factory.mktemp("helm"))


@pytest.fixture
def newest_helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The newest helm, where one is enough."""
    return Helm(max(MAJORS), tmp_path_factory.mktemp("helm"))


@pytest.fixture
def host() -> Iterator[HostBuilder]:
    """An empty host; its path is short, as socket paths must be."""
    with TemporaryDirectory(prefix="node-") as folder:
        yield HostBuilder(Path(folder))

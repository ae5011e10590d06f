"""What the end-to-end tests share: a laid-out node with kubelet's folders, and a config writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet


@pytest.fixture
def host() -> Iterator[HostBuilder]:
    """An empty host with kubelet's legacy folder; its path is short, as socket paths must be."""
    with TemporaryDirectory(prefix="node-") as folder:
        builder = HostBuilder(Path(folder))
        builder.roots.device_plugins.mkdir(parents=True)
        yield builder


@pytest.fixture
def kubelet(host: HostBuilder) -> Iterator[Kubelet]:
    """A kubelet stand-in in the host's folder."""
    with Kubelet(host.roots.kubelet) as running:
        yield running


class ConfigFile:
    """A plain configuration file that a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *pools: dict[str, Any]) -> Path:
        """Write the pools, as an editor does; returns the path."""
        self.path.write_text(json.dumps({"resourceList": list(pools)}))
        return self.path


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    """A configuration file outside the host's tree."""
    return ConfigFile(tmp_path / "config.json")


def pool(name: str, *, prefix: str = "example.com", **rest: object) -> dict[str, Any]:
    """A pool; keyword arguments that are no pool keys are selectors of one object."""
    own = {"deviceType", "excludeTopology", "additionalInfo", "health", "advertiseEmpty"}
    own |= {"allowInUse", "allocationPolicy"}
    selectors = {key: value for key, value in rest.items() if key not in own}
    keys = {key: value for key, value in rest.items() if key in own}
    return {"resourceName": name, "resourcePrefix": prefix, "selectors": selectors, **keys}

"""The guest as a node: kubelet's stand-in, and the agent beside it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs
import pytest

from agent.roots import Roots
from tests.e2e.conftest import ConfigFile
from tests.support import kubelet
from tests.support.agent import AgentProcess
from tests.support.kubelet import Device, Kubelet
from tests.vm.wiring import IN_GUEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .machine import Function

NET = "example.com/net"

if IN_GUEST in os.environ:
    # What takes a second elsewhere takes ten on an emulated processor, and more on a busy host.
    AgentProcess.patience_s = kubelet.PATIENCE_S = 120.0


@attrs.frozen
class Node:
    """A folder of kubelet's, what it was told, and the agent's configuration."""

    kubelet: Kubelet
    kubelet_dir: Path
    config: ConfigFile

    @contextmanager
    def agent(
        self, *pools: dict[str, object], options: Sequence[str] = ()
    ) -> Iterator[AgentProcess]:
        """The agent with these pools, once it hears the kernel."""
        path = self.config.write(*pools)
        words = ("--kubelet-dir", str(self.kubelet_dir), *options)
        with AgentProcess(Path("/"), path, *words) as agent:
            agent.wait_for("agent.ready")  # on an emulated processor, each has its own patience
            agent.wait_for("netlink.open")
            yield agent

    def lists(self, resource: str = NET) -> list[tuple[Device, ...]]:
        """All lists of a resource so far."""
        return [devices for name, devices in self.kubelet.lists if name == resource]

    def await_ids(
        self, *functions: Function, resource: str = NET, healthy: bool | None = True
    ) -> tuple[Device, ...]:
        """The first newest list of exactly these, with that health; None is any health."""
        ids = {function.address for function in functions}

        def told(_: Kubelet) -> bool:
            lists = self.lists(resource)
            return (
                bool(lists)
                and {d.id for d in lists[-1]} == ids
                and all(healthy in (None, d.healthy) for d in lists[-1])
            )

        self.kubelet.wait_for(told, f"{sorted(ids)} {healthy=}: {self.lists(resource)[-3:]}")
        return self.lists(resource)[-1]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose kubelet runs; its sockets are in /run, since their paths must be short."""
    with TemporaryDirectory(prefix="node-", dir="/run") as folder, Kubelet(Path(folder)) as kubelet:
        yield Node(kubelet, Path(folder), ConfigFile(tmp_path / "config.json"))
    # This kubelet has no pods and no checkpoint, so nothing else says that devices are free again.
    for record in Roots(host=Path("/")).device_info.glob(".sriov-agent-given-*.json"):
        record.unlink()

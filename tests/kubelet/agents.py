"""The installed agent as a program of the node, beside kubelet, on a laid-out host."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder

from .namespace import Program
from .node import Node
from .waiting import eventually

COMMAND = Path(sys.executable).parent / "sriov-agent"
PORT_0 = "0000:3b:00.0"
PORT_1 = "0000:3b:00.1"


@attrs.define
class Machine:
    """A node with a laid-out two-port NIC: kernel VFs on port 0, VFIO ones on both."""

    node: Node
    host: HostBuilder
    root: str
    """Where the node shows the laid-out host."""
    kernel_vfs: tuple[str, ...]
    vfio_vfs: tuple[str, ...]

    @contextmanager
    def agent(
        self, name: str, *pools: dict[str, Any], arguments: tuple[str, ...] = ()
    ) -> Iterator[Agent]:
        """An agent that runs until the end of the block; its configuration can be edited."""
        made = Agent(self, name, self.host.root.parent / f"{name}.json", arguments)
        made.configure(*pools)
        made.start()
        try:
            yield made
        finally:
            made.stop()


@attrs.define
class Agent:
    """One agent, which can be stopped and started again."""

    machine: Machine
    name: str
    config: Path
    arguments: tuple[str, ...]
    program: Program | None = None

    def configure(self, *pools: dict[str, Any]) -> None:
        """Write the configuration file."""
        self.config.write_text(json.dumps({"resourceList": list(pools)}), encoding="utf-8")

    def start(self) -> None:
        """Start it, and wait until it has said what it found."""
        self.program = self.machine.node.inside.start(
            self.name,
            *(COMMAND, "run", "--host-root", self.machine.root, "--config-file", self.config),
            *self.arguments,
        )

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        assert self.program is not None
        status = self.program.stop()
        assert status == 0, self.program.log_tail(60)
        return status


def lay_out(node: Node, work: Path) -> Machine:
    """Make the host and the device nodes that its allocations name."""
    host = HostBuilder(work / "host")
    host.pf(PORT_0, "ens1f0", vfs=4, numa=1)
    kernel_vfs = host.vfs(PORT_0)
    host.add_vfs(PORT_0, 8, E810.vf.vfio)
    host.pf(PORT_1, "ens1f1", attrs.evolve(E810, vf=E810.vf.vfio), vfs=4, numa=1)
    vfio_vfs = (*host.vfs(PORT_0)[4:], *host.vfs(PORT_1))
    root = node.host_root(host.root)
    node.inside.device_node("vfio/vfio")
    for vf in vfio_vfs:
        node.inside.device_node(f"vfio/{group(host, vf)}")
    return Machine(node, host, root, kernel_vfs, vfio_vfs)


def group(host: HostBuilder, bdf: str) -> str:
    """The IOMMU group of a laid-out function."""
    return (host.folder(bdf) / "iommu_group").resolve().name


def pool(name: str, selectors: dict[str, Any], **keys: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A pool under the suite's prefix."""
    return {
        "resourcePrefix": "example.com",
        "resourceName": name,
        "selectors": selectors,
        **keys,
    }


def allocatable(node: Node, resource: str, count: int) -> frozenset[str]:
    """Wait until kubelet counts ``count`` devices of a resource; their ids."""
    return eventually(
        lambda: (
            (found if len(found := node.kubelet.allocatable(resource)) == count else None)
            or (frozenset({"none"}) if count == 0 and not found else None)
        ),
        f"{count} of {resource}",
        passing=(OSError,),
        tell=lambda: sorted(node.kubelet.allocatable(resource)),
    )

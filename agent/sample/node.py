"""The demo's node: an uplink, a two-port NIC with VFs for kernel and DPDK use, and its pools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from agent.attrs_classes import frozen
from agent.sample.hardware import E810, VfHardware
from agent.sample.host_builder import HostBuilder

UPLINK = "0000:18:00.0"
PORT_0 = "0000:3b:00.0"
PORT_1 = "0000:3b:00.1"
KERNEL_POOL = "example.com/kernel_net"
DPDK_POOL = "example.com/dpdk_net"
VFIO = VfHardware(device="1889", driver="vfio-pci", netdevs=False)


@frozen
class SampleNode:
    """A laid-out node in a temporary folder, and the files that its agent reads."""

    host: HostBuilder
    config_file: Path

    def write_config(self, *, indexes: str) -> None:
        """Write the pools; ``indexes`` are the VFs of port 1 that DPDK may have."""
        self.config_file.write_text(json.dumps(config(indexes), indent=2))


def config(indexes: str) -> dict[str, Any]:
    """Two pools of one NIC: kernel VFs of port 0, DPDK VFs of port 1."""
    return {
        "resourceList": [
            {
                "resourceName": "kernel_net",
                "resourcePrefix": "example.com",
                "selectors": {"vendors": ["8086"], "drivers": ["iavf"], "pfNames": ["ens1f0"]},
            },
            {
                "resourceName": "dpdk_net",
                "resourcePrefix": "example.com",
                "selectors": {"drivers": ["vfio-pci"], "pfNames": [f"ens1f1#{indexes}"]},
                "additionalInfo": {"*": {"zone": "blue"}},
            },
        ]
    }


def lay_out(folder: Path) -> SampleNode:
    """Make the node below ``folder``."""
    host = HostBuilder(folder / "host")
    host.pf(UPLINK, "eno1", numa=0)
    host.default_route("eno1")
    host.pf(PORT_0, "ens1f0", vfs=4, numa=1)
    host.pf(PORT_1, "ens1f1", attrs.evolve(E810, vf=VFIO), vfs=4, numa=1)
    host.roots.device_plugins.mkdir(parents=True)
    node = SampleNode(host, folder / "config.json")
    node.write_config(indexes="0-1")
    return node

"""More adapters for laid-out hosts, by their PCI ids (pci.ids) and drivers."""

from __future__ import annotations

import attrs

from agent.sample.hardware import E810, INFINIBAND, NETWORK, Hardware, VfHardware

__all__ = ["E810", "INFINIBAND", "NETWORK", "Hardware", "VfHardware"]

ACCELERATOR = 0x120000
X710 = Hardware("8086", "1572", "i40e", total_vfs=64, vf=VfHardware("154c", "iavf"))
CONNECTX6 = Hardware("15b3", "101d", "mlx5_core", total_vfs=16, vf=VfHardware("101e", "mlx5_core"))
CONNECTX6_INFINIBAND = attrs.evolve(
    CONNECTX6, device="101b", pci_class=INFINIBAND, vf=VfHardware("101c", "mlx5_core")
)
VIRTIO_NET = Hardware("1af4", "1041", "virtio-pci")
ACC100 = Hardware(
    "8086",
    "0d5c",
    "igb_uio",
    pci_class=ACCELERATOR,
    total_vfs=16,
    vf=VfHardware("0d5d", "vfio-pci", netdevs=False),
)

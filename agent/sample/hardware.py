"""Some adapters by their PCI ids (pci.ids) and drivers, as far as laying out a host needs them."""

from __future__ import annotations

import attrs

from agent.attrs_classes import frozen

NETWORK = 0x020000
INFINIBAND = 0x020700


@frozen
class VfHardware:
    """What the VFs of a PF look like when they are made; vendor and class are the PF's."""

    device: str
    driver: str | None
    netdevs: bool = True
    """Whether each has a netdev, named after its PF's with ``v<N>``."""
    iommu: bool = True
    """Whether each has an IOMMU group."""

    @property
    def vfio(self) -> VfHardware:
        """The same, bound to vfio-pci."""
        return attrs.evolve(self, driver="vfio-pci", netdevs=False)


@frozen
class Hardware:
    """One model of adapter with the driver that its functions are bound to."""

    vendor: str
    device: str
    driver: str | None
    pci_class: int = NETWORK
    total_vfs: int = 0
    vf: VfHardware = VfHardware("0000", None)

    @property
    def link_type(self) -> str:
        """What its ports speak: adapters that can speak both tell by their class."""
        return "infiniband" if self.pci_class == INFINIBAND else "ether"


E810 = Hardware("8086", "1592", "ice", total_vfs=128, vf=VfHardware("1889", "iavf"))

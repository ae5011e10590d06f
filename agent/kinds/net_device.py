"""netDevice: network functions on the PCI bus, VFs and PFs without VFs alike."""

from __future__ import annotations

from agent.kinds.kind import Kind

NET_DEVICE = Kind(
    name="netDevice",
    noun="network function",
    base_classes=frozenset({0x02}),  # PCI code and id assignment: network controller
    has_netdev=True,
    device_info=True,
    cdi_class="net-pci",
)

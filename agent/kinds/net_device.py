"""netDevice: network functions on the PCI bus, VFs and PFs without VFs alike."""

from __future__ import annotations

from agent.kinds.kind import KindFacts
from agent.model.device import Kind

NET_DEVICE = KindFacts(
    kind=Kind.NET_DEVICE,
    base_classes=frozenset({0x02}),  # PCI code and id assignment: network controller
    aux_types=frozenset(),
    device_info=True,
    cdi_class="net-pci",
    noun="network function",
)

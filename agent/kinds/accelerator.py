"""accelerator: processing accelerators on the PCI bus, such as FEC and crypto engines."""

from __future__ import annotations

from agent.kinds.kind import Kind

ACCELERATOR = Kind(
    name="accelerator",
    noun="accelerator function",
    base_classes=frozenset({0x12}),  # PCI code and id assignment: processing accelerator
    has_netdev=False,
    takes_other_classes=True,
    device_info=False,
    cdi_class="net-accel",
)

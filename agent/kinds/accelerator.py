"""accelerator: processing accelerators on the PCI bus, such as FEC and crypto engines."""

from __future__ import annotations

from agent.kinds.kind import KindFacts
from agent.model.device import Kind

ACCELERATOR = KindFacts(
    kind=Kind.ACCELERATOR,
    base_classes=frozenset({0x12}),  # PCI code and id assignment: processing accelerator
    aux_types=frozenset(),
    device_info=False,
    cdi_class="net-accel",
    noun="accelerator function",
)

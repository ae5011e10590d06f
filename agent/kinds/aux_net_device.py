"""auxNetDevice: sub-functions and other auxiliary devices below a network function."""

from __future__ import annotations

from agent.kinds.kind import KindFacts
from agent.model.device import Kind

AUX_NET_DEVICE = KindFacts(
    kind=Kind.AUX_NET_DEVICE,
    base_classes=frozenset(),
    aux_types=frozenset({"sf"}),
    device_info=True,
    cdi_class="net-sf",
    noun="auxiliary network device",
)

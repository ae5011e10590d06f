"""auxNetDevice: sub-functions and other auxiliary devices below a network function."""

from __future__ import annotations

from agent.kinds.kind import Kind

AUX_NET_DEVICE = Kind(
    name="auxNetDevice",
    noun="auxiliary network device",
    aux_types=frozenset({"sf"}),
    has_netdev=True,
    device_info=True,
    cdi_class="net-sf",
    how_to_create=(
        "make sub-functions with `devlink port add pci/ADDRESS flavour pcisf pfnum N sfnum N`"
    ),
)

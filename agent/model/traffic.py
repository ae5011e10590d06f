"""What the VFs of a PF have carried, as the PF's driver or the VF's own interface counts it."""

from __future__ import annotations

from collections.abc import Mapping

from agent.attrs_classes import frozen


@frozen
class VfTraffic:
    """Counters of one VF since it was made, seen from the VF (uapi linux/if_link.h)."""

    rx_packets: int = 0
    tx_packets: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0
    rx_broadcast: int | None = 0
    """None where nobody counts them: interfaces do not."""
    rx_multicast: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0


Traffic = Mapping[str, Mapping[int, VfTraffic]]
"""PF's PCI address -> VF index -> what it has carried."""

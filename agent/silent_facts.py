"""Scans facts that change without a kernel event, at intervals.

For example, a subnet manager writes P_Keys, a tool loads a DDP profile, a device node is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.bus import Bus
from agent.model.events import HostChanged
from agent.pools.allocation import node_names
from agent.pools.pool import Pools
from agent.selectors import SELECTORS

EVERY_S = 60.0


async def scan_silent_facts(bus: Bus, pools: Callable[[], Pools]) -> None:
    """Request a scan each minute while a pool depends on such facts; runs until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        touched = silent_facts(pools())
        if touched is not None:
            bus.publish(HostChanged(touched))


def silent_facts(pools: Pools) -> frozenset[str] | None:
    """Ids of the devices to scan for such facts; None = no pool depends on them.

    Every scan reads the device nodes and asks devlink, also a scan of no device.
    """
    keys = {c.key for p in pools.config.pools for s in p.selectors for c in s.criteria}
    checks = [check for key in keys if (check := SELECTORS[key].changes_silently)]
    has_nodes = any(any(True for _ in node_names(m)) for p in pools.pools for m in p.members)
    if not has_nodes and not checks:
        return None
    return frozenset(d.id for d in pools.snapshot.devices if any(check(d) for check in checks))

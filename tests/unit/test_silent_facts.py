"""The scan of facts that change without an event: what it reads, when it runs, when it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.bus import Bus
from agent.model.events import HostChanged
from agent.pools.pool import Pools
from agent.silent_facts import EVERY_S, scan_silent_facts, silent_facts
from tests.support.devices import host, pf, vf
from tests.support.pools import assigned, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
PLAIN = vf("0000:3b:02.0", PF0, 0)
WITH_PKEY = vf("0000:3b:02.1", PF0, 1, pkey=0xFFFF)
ON_VFIO = vf("0000:3b:02.2", PF0, 2, driver="vfio-pci", iommu_group=7)
NODE = host(PF0, PLAIN, WITH_PKEY, ON_VFIO)


@pytest.mark.parametrize(
    ("selectors", "touched"),
    [
        ({"drivers": ["iavf"]}, None),
        ({"drivers": ["iavf"], "needVhostNet": True}, frozenset()),
        ({"drivers": ["vfio-pci"]}, frozenset()),
        ({"isRdma": True}, frozenset()),
        ({"pKeys": ["0x8001"]}, frozenset({WITH_PKEY.id})),
        ({"ddpProfiles": ["GTPv1-C/U IPv4/IPv6 payload"]}, frozenset({PF0.id})),
    ],
)
def test_only_functions_on_which_a_pool_depends_are_scanned(
    selectors: dict[str, Any], touched: frozenset[str] | None
) -> None:
    assert silent_facts(assigned(NODE, pool("vf", selectors))) == touched


@pytest.mark.looptime
async def test_a_hint_is_given_each_minute_while_a_pool_depends_on_such_facts() -> None:
    bus = Bus()
    loop = asyncio.get_running_loop()
    changes: list[tuple[float, HostChanged]] = []
    bus.on(HostChanged, lambda hint: changes.append((loop.time(), hint)))
    pools = Pools()
    began = loop.time()
    task = asyncio.create_task(scan_silent_facts(bus, lambda: pools))
    await asyncio.sleep(EVERY_S * 1.5)
    assert changes == []
    pools = assigned(NODE, pool("vf", {"pKeys": ["0x8001"]}))
    await asyncio.sleep(EVERY_S * 2)
    hint = HostChanged(frozenset({WITH_PKEY.id}))
    assert changes == [(began + EVERY_S * n, hint) for n in (2, 3)]
    task.cancel()

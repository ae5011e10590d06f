"""A reconciler at work in virtual time, between scripted inputs and recorded offers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from agent.bus import Bus
from agent.config.watcher import ConfigChanged
from agent.model.device import Device, Netdev
from agent.model.events import LinksChanged, SnapshotTaken
from agent.model.link import LinkFact, Links
from agent.reconcile import Reconciler, Record
from tests.support.devices import host, pf, vf
from tests.support.pools import Json, config, pool
from tests.support.scripted import RecordingFleet, ScriptedSpecs

UPLINK = Netdev("pf0", ifindex=5, admin_up=True)
VF = "intel.com/vf"


def family(count: int) -> tuple[Device, ...]:
    """A PF and its VFs."""
    parent = pf("0000:3b:00.0", "pf0", num_vfs=count, netdevs=(UPLINK,))
    return parent, *(vf(f"0000:3b:{2 + i // 8:02x}.{i % 8}", parent, i) for i in range(count))


def ids(count: int, *, healthy: bool = True) -> tuple[tuple[str, bool], ...]:
    """A list as kubelet would get it, of all VFs of the family."""
    return tuple((d.id, healthy) for d in family(count)[1:])


def carrier(*, up: bool) -> LinksChanged:
    """What netlink tells when the PF's cable is pulled or plugged in."""
    return LinksChanged(Links({5: LinkFact(5, "pf0", admin_up=True, carrier=up)}))


@attrs.define
class Node:
    """A reconciler at work, and what is around it."""

    bus: Bus
    fleet: RecordingFleet
    specs: ScriptedSpecs
    reconciler: Reconciler

    def host(self, *devices: Device, settled: bool = True) -> None:
        """A scan saw these devices."""
        self.bus.publish(SnapshotTaken(host(*devices), settled))

    def lists(self, resource: str = VF) -> list[tuple[float, tuple[tuple[str, bool], ...]]]:
        """The lists that kubelet would get of a resource, with their times."""
        return self.fleet.lists(resource)


@asynccontextmanager
async def node(
    *devices: Device,
    pools: tuple[Json, ...] = (pool("vf"),),
    specs: ScriptedSpecs | None = None,
    claim: Callable[[frozenset[str]], frozenset[str]] = frozenset,
    record: Record | None = None,
) -> AsyncIterator[Node]:
    """A reconciler that has told the first lists, as the daemon does it."""
    bus, fleet, specs = Bus(), RecordingFleet(), specs or ScriptedSpecs()
    reconciler = Reconciler(bus, fleet, specs, claim, record)
    bus.publish(ConfigChanged(config(*pools)))
    bus.publish(SnapshotTaken(host(*devices), settled=True))
    await reconciler.reconcile()
    running = asyncio.create_task(reconciler.run())
    await asyncio.sleep(0)
    try:
        yield Node(bus, fleet, specs, reconciler)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

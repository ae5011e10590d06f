"""Stand-ins for what surrounds monitor and reconciler, for tests in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import attrs

from agent.bus import Bus
from agent.health.verdict import Health
from agent.model.answers import DeviceListing
from agent.model.device import Device
from agent.model.events import HostChanged, SnapshotTaken
from agent.model.snapshot import Snapshot
from agent.pools.pool import Pools
from agent.watch.rescan import RescanLoop


def now() -> float:
    """The loop's time (s), to the microsecond."""
    return round(asyncio.get_running_loop().time(), 6)


@attrs.define
class ScriptedHost:
    """A host whose devices the test changes; a scan sees those of the moment it starts."""

    devices: tuple[Device, ...] = ()
    scan_s: float = 0.0
    """How long a scan takes."""
    fault: Exception | None = None
    scans: list[float] = attrs.Factory(list)
    """When scans started."""

    reads: list[frozenset[str] | None] = attrs.Factory(list)
    """What each was to read, None = everything."""

    def scan(self, touched: frozenset[str] | None) -> Snapshot:
        """What a scan sees."""
        self.scans.append(now())
        self.reads.append(touched)
        if self.fault is not None:
            raise self.fault
        return Snapshot(devices=self.devices)

    async def elsewhere(self, work: Callable[[], Snapshot]) -> Snapshot:
        """Run a scan in virtual time in the place of a thread."""
        seen = work()
        await asyncio.sleep(self.scan_s)
        return seen

    def rescan_loop(self, bus: Bus) -> RescanLoop:
        """A monitor of this host."""
        return RescanLoop(self.scan, bus, self.elsewhere)


@attrs.define
class Told:
    """The snapshots that were published, with their time."""

    bus: Bus
    snapshots: list[tuple[float, int, bool]] = attrs.Factory(list)
    """(time, number of devices, whether the host had settled)."""
    causes: list[float | None] = attrs.Factory(list)
    """Of each, when the first event came that led to it."""

    def __attrs_post_init__(self) -> None:
        self.bus.on(SnapshotTaken, self._note)

    def _note(self, event: SnapshotTaken) -> None:
        self.causes.append(event.seen_at)
        self.snapshots.append((now(), len(event.snapshot.devices), event.settled))


@attrs.define
class RecordingFleet:
    """Notes every offer in the place of serving it."""

    applied: list[tuple[float, tuple[DeviceListing, ...]]] = attrs.Factory(list)
    served_elsewhere: frozenset[str] = frozenset()
    """What another process serves, as the newest call says."""

    def apply(
        self, offers: tuple[DeviceListing, ...], served_elsewhere: Collection[str] = frozenset()
    ) -> None:
        """What a fleet is told."""
        self.served_elsewhere = frozenset(served_elsewhere)
        self.applied.append((now(), offers))

    def lists(self, resource: str) -> list[tuple[float, tuple[tuple[str, bool], ...]]]:
        """The lists that kubelet would get for one resource: equal ones are sent once."""
        found: list[tuple[float, tuple[tuple[str, bool], ...]]] = []
        for when, offers in self.applied:
            for offer in offers:
                devices = tuple((d.id, d.healthy) for d in offer.devices)
                if offer.resource == resource and (not found or found[-1][1] != devices):
                    found.append((when, devices))
        return found


@attrs.define
class ScriptedSpecs:
    """Writes nothing; fails for the devices that the test names."""

    failing: Mapping[str, Mapping[str, Health]] = attrs.Factory(dict)
    written: list[tuple[float, int]] = attrs.Factory(list)
    """(time, how many pools) of each call."""
    write_s: float = 0.0

    async def write(self, pools: Pools) -> Mapping[str, Mapping[str, Health]]:
        """What a writer of specs is told."""
        self.written.append((now(), len(pools.pools)))
        await asyncio.sleep(self.write_s)
        return self.failing


async def hint_every(bus: Bus, pause_s: float, until_s: float) -> None:
    """A storm of hints."""
    while now() < until_s:
        bus.publish(HostChanged())
        await asyncio.sleep(pause_s)

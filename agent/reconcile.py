"""Keeps kubelet's lists current: host, links, configuration, holders and allocations in, lists out.

All inputs arrive on the bus as whole values; a burst of them is one pass. A pass assigns devices to
pools and assesses their health by pure functions, writes the CDI specs that changed, and hands the
lists to the fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol, TypeVar

import attrs

from agent import blocking, logs
from agent.attrs_classes import define
from agent.bus import Bus
from agent.change_log import (
    health_events,
    join_ids,
    log_pool,
    log_removed,
    log_unproven_links,
    why_empty,
)
from agent.config.schema import Config
from agent.config.watcher import ConfigChanged
from agent.events.devices import DevicesRest
from agent.events.kubelet import HoldersAwaited
from agent.health.link import unproven_pfs
from agent.health.pool_health import PoolHealth, assess_pool, changes
from agent.health.verdict import Health
from agent.model.answers import DeviceListing
from agent.model.device import Device
from agent.model.events import (
    DevicesAllocated,
    DevicesResting,
    DevicesReturned,
    LinksChanged,
    SnapshotTaken,
)
from agent.model.link import Links
from agent.model.plugin_events import ResourceLocksChanged
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.allocation_tracker import REST_S, AllocationTracker
from agent.pools.assign import assign
from agent.pools.pool import Pool, Pools
from agent.state_events import HoldersReported, PoolsChanged

HOLDERS_AWAITED_S = 30.0
"""How long devices that an earlier pool may have given wait for kubelet's first report."""
RETRY_FILES_S = 10.0
"""When writing a file is tried again after a failure."""
MANY_DEVICES = 2048
"""With this many devices a pass works in a thread: it would block the loop for milliseconds."""
MANY_VALUES = 1024
"""With this many selector values a pass works in a thread as well."""
_TURNS_TO_SEND = 8
"""Turns of the loop in which streams wake and send their lists, and new pools ask to register."""

T = TypeVar("T")


class Offered(Protocol):
    """Serves the lists."""

    def apply(
        self, offers: tuple[DeviceListing, ...], served_elsewhere: Collection[str] = frozenset()
    ) -> None:
        """Make ``offers`` the desired state; another process serves ``served_elsewhere``."""


class SpecWriter(Protocol):
    """Writes the files that must exist before a list is sent."""

    async def write(self, pools: Pools) -> Mapping[str, Mapping[str, Health]]:
        """Write what changed; resource -> device id -> health, for what could not be written."""


class Record(Protocol):
    """Keeps a record of the devices given to pods."""

    async def keep(self, holders: Mapping[str, PodOwner]) -> None:
        """Remove the devices that no pod holds."""


@define
class PoolState:
    """The reconciler's result: written by its passes, read by the allocator and the status."""

    pools: Pools = Pools()
    """What the newest pass assigned and offered."""
    tracker: AllocationTracker = AllocationTracker()
    """Which devices pods hold, as far as is known."""


class Reconciler:
    """The newest inputs, and the passes that make lists from them.

    Subscribes on construction: kubelet may allocate before the first pass is over. ``claim`` is
    called with the resources to serve, and returns those that this process may serve.
    """

    def __init__(
        self,
        bus: Bus,
        fleet: Offered,
        specs: SpecWriter,
        claim: Callable[[frozenset[str]], frozenset[str]] = frozenset,
        record: Record | None = None,
        state: PoolState | None = None,
    ) -> None:
        self._bus = bus
        self._claim = claim
        self._fleet = fleet
        self._specs = specs
        self._record = record
        self._recording: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The newest update of the record: a folder that hangs must not delay the lists."""
        self._recording.set_result(None)
        self.config = Config()
        self._is_large = False
        self.snapshot = Snapshot()
        self.settled = True
        self.links = Links()
        self._state = state or PoolState()
        self.pools_health: Mapping[str, PoolHealth] = {}
        self._assigned: tuple[Snapshot, Config, AllocatedDevices] | None = None
        self._newest = Pools()
        self._logged = Pools()
        """Pools last logged; nothing is logged while the host is still settling."""
        self._unproven: Mapping[str, Device] = {}
        """PFs that a warning was logged for."""
        self._had_devices: set[str] = set()
        self._dirty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._seen_at: float | None = None
        """Loop time (s) of the first event on the host that no pass has taken in."""
        self._leave: list[Callable[[], None]] = [
            bus.on(ConfigChanged, self._config_changed),
            bus.on(SnapshotTaken, self._host_changed),
            bus.on(LinksChanged, self._links_changed),
            bus.on(HoldersReported, self._holders_reported),
            bus.on(DevicesAllocated, self._allocated),
            bus.on(DevicesReturned, self._returned),
            bus.on(ResourceLocksChanged, lambda _: self._dirty.set()),
        ]

    @property
    def pools(self) -> Pools:
        """What the newest pass assigned and offered."""
        return self._state.pools

    @property
    def tracker(self) -> AllocationTracker:
        """Which devices pods hold, as far as is known."""
        return self._state.tracker

    # Inputs: each stores a value and wakes the pass.

    def _host_changed(self, event: SnapshotTaken) -> None:
        """A scan saw the host."""
        self.snapshot, self.settled = event.snapshot, event.settled
        self._note_cause(event.seen_at)
        self._state.tracker = self.tracker.remembering(event.snapshot.devices)
        self._dirty.set()

    def _links_changed(self, event: LinksChanged) -> None:
        """An interface changed."""
        self.links = event.links
        self._note_cause(event.seen_at)
        self._dirty.set()

    def _note_cause(self, seen_at: float | None) -> None:
        times = (t for t in (self._seen_at, seen_at) if t is not None)
        self._seen_at = min(times, default=None)

    def _config_changed(self, event: ConfigChanged) -> None:
        """The configuration was read for the first time, or changed."""
        self.config = event.config
        self._is_large = event.config.values >= MANY_VALUES
        self._dirty.set()

    def await_holders(self) -> None:
        """Keep back devices that pods may hold until kubelet reports, or for HOLDERS_AWAITED_S."""
        logs.emit(HoldersAwaited(seconds=HOLDERS_AWAITED_S))
        self._update(attrs.evolve(self.tracker, awaited=True))

        def enough() -> None:
            self._update(attrs.evolve(self.tracker, awaited=False))

        asyncio.get_running_loop().call_later(HOLDERS_AWAITED_S, enough)

    def _holders_reported(self, event: HoldersReported) -> None:
        """Kubelet reported which pods hold devices."""
        self._update(self.tracker.heard(event.report, event.asked_at))

    def _returned(self, event: DevicesReturned) -> None:
        """A pod failed, perhaps because of its devices."""
        self._update(self.tracker.returned(event.device_ids, asyncio.get_running_loop().time()))

    def resting(self) -> Mapping[str, float]:
        """Devices to which others are preferred for a while -> for how long still (s)."""
        now = asyncio.get_running_loop().time()
        return {i: until - now for i, until in self.tracker.resting.items() if until > now}

    def _update(self, tracker: AllocationTracker) -> None:
        before, self._state.tracker = self.tracker, tracker.remembering(self.snapshot.devices)
        if self.tracker.held != before.held:
            self._dirty.set()
        if began := self.tracker.resting.keys() - before.resting.keys():
            self._bus.publish(DevicesResting(self.tracker.resting))
            logs.emit(DevicesRest(seconds=REST_S, devices=join_ids(tuple(sorted(began)))))

    def _allocated(self, event: DevicesAllocated) -> None:
        """Devices were given to a container."""
        now = asyncio.get_running_loop().time()
        pool = self.pools.by_resource.get(event.resource)
        members = pool.by_id if pool else {}
        chosen = {i: members[i].selectors for i in event.device_ids if i in members}
        tracker = self.tracker.allocated(event.resource, event.device_ids, now, chosen)
        self._state.tracker = tracker.remembering(self.snapshot.devices)
        self._dirty.set()

    # Passes

    async def run(self) -> None:
        """Pass whenever an input changed, or a device becomes healthy after its hold time."""
        try:
            while True:
                await self._dirty.wait()
                await self.reconcile()
        finally:
            self._recording.cancel()
            for leave in self._leave:
                leave()

    async def reconcile(self) -> None:
        """One pass over the newest inputs."""
        self._dirty.clear()
        seen_at, self._seen_at = self._seen_at, None
        inputs, settled = (self.snapshot, self.config, self.tracker.held), self.settled
        pools = await self._work(lambda: self._assign(inputs, settled=settled))
        shown = self._shown(pools)
        own = self._claim(shown)  # before the files: another process may write them
        unwritten = await self._specs.write(pools)
        links, now = self.links, asyncio.get_running_loop().time()
        pools_health = await self._work(lambda: self._judge(pools, links, now, unwritten))
        elsewhere = shown - own
        offered = tuple(
            _with_cause(pools_health[p.resource].offer(), seen_at)
            for p in pools.pools
            if p.resource in own
        )
        await self._offer(pools, pools_health, (offered, elsewhere), settled=settled)
        if self._record is not None and self._recording.done():
            self._recording = asyncio.ensure_future(self._record.keep(pools.held.holders))
        self._plan(retry=bool(unwritten))

    async def _work(self, work: Callable[[], T]) -> T:
        """Run ``work``, in a thread where there are many devices."""
        return await blocking.compute("passes", work) if self._has_many else work()

    @property
    def _has_many(self) -> bool:
        return len(self.snapshot.devices) >= MANY_DEVICES or self._is_large

    def _assign(self, inputs: tuple[Snapshot, Config, AllocatedDevices], *, settled: bool) -> Pools:
        """The pools as assigned, without new devices while the host is still settling."""
        if inputs != self._assigned:
            self._newest = assign(*inputs)
            self._assigned = inputs
        if settled:
            return self._newest
        return attrs.evolve(self._newest, pools=tuple(map(self._without_new, self._newest.pools)))

    def _without_new(self, pool: Pool) -> Pool:
        before = self.pools.by_resource.get(pool.resource)
        known = before.by_id if before else {}
        members = tuple(m for m in pool.members if m.device.id in known)
        return pool if len(members) == len(pool.members) else attrs.evolve(pool, members=members)

    def _judge(
        self,
        pools: Pools,
        links: Links,
        now: float,
        unwritten: Mapping[str, Mapping[str, Health]],
    ) -> Mapping[str, PoolHealth]:
        """Every pool's health by resource, each with its list already made."""
        pools_health = {}
        for pool in pools.pools:
            before = self.pools_health.get(pool.resource)
            failed = unwritten.get(pool.resource, {})
            pools_health[pool.resource] = assess_pool(before, pool, pools, links, now, failed)
            pools_health[pool.resource].offer()
        return pools_health

    def _shown(self, pools: Pools) -> frozenset[str]:
        """The resources to register: with devices now or earlier, or with advertiseEmpty."""
        self._had_devices &= {p.resource for p in pools.pools}
        self._had_devices |= {p.resource for p in pools.pools if p.members}
        on_request = {p.resource for p in pools.pools if p.config.advertise_empty}
        return frozenset(self._had_devices | on_request)

    async def _offer(
        self,
        pools: Pools,
        pools_health: Mapping[str, PoolHealth],
        offers: tuple[tuple[DeviceListing, ...], frozenset[str]],
        *,
        settled: bool,
    ) -> None:
        """Hand the lists, and what is served elsewhere, to the fleet; then log what changed."""
        before, self.pools_health = self.pools_health, pools_health
        known, self._state.pools = self.pools, pools
        self._fleet.apply(*offers)
        for _ in range(_TURNS_TO_SEND):
            await asyncio.sleep(0)
        await self._report_changes(before)
        if settled:
            self._log_unproven(before)
        if settled and pools is not self._logged:
            await self._log_pools(self._logged, pools)
            self._logged = pools
        if pools is not known:
            self._bus.publish(PoolsChanged())

    async def _report_changes(self, before: Mapping[str, PoolHealth]) -> None:
        """Publish, and thereby log, which devices were added, removed, or changed their health."""
        after = self.pools_health
        for resource in dict.fromkeys((*before, *after)):
            if found := changes(before.get(resource), after.get(resource)):
                for event in health_events(resource, found):
                    self._bus.publish(event)
                await self._give_way()

    def _log_unproven(self, before: Mapping[str, PoolHealth]) -> None:
        """Log the PFs that are down, so that the link of their functions is not known."""
        if all(before.get(resource) is now for resource, now in self.pools_health.items()):
            return
        judged = [o.inputs for o in self.pools_health.values() if o.inputs is not None]
        unproven = {
            pf.id: pf
            for inputs in judged
            for pf in unproven_pfs(inputs.carriers, inputs.snapshot, self.links)
        }
        log_unproven_links(unproven, self._unproven)
        self._unproven = unproven

    async def _log_pools(self, before: Pools, after: Pools) -> None:
        """Log how the pools changed."""
        for pool in after.pools:
            advice = None
            if not pool.members:
                advice = await self._work(partial(why_empty, pool, before, after))
            log_pool(pool, before, advice)
            await self._give_way()
        log_removed(before, after)

    async def _give_way(self) -> None:
        """Let other tasks run, where there is much to log."""
        if self._has_many:
            await asyncio.sleep(0)

    def _plan(self, *, retry: bool) -> None:
        """Wake up when the next device becomes healthy, or a file is to be tried again."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        moments = [o.next_due for o in self.pools_health.values() if o.next_due is not None]
        if retry:
            moments.append(loop.time() + RETRY_FILES_S)
        if moments:
            self._timer = loop.call_at(min(moments), self._dirty.set)


def _with_cause(listing: DeviceListing, seen_at: float | None) -> DeviceListing:
    return listing if seen_at is None else attrs.evolve(listing, seen_at=seen_at)

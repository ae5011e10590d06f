"""The running agent: puts the parts together, and takes them apart in the opposite order.

Start: configuration, first scan and holders side by side, locks of the resources, first lists, then
everything that follows the host. Stop: the followers end, then the fleet closes its streams and
sockets; CDI specs and device-info files stay, since running pods need them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING

from agent import __version__, blocking, logs
from agent.allocator import Allocator, Checks
from agent.bus import Bus
from agent.config.schema import Config
from agent.config.watcher import ConfigChanged, ConfigWatcher
from agent.discovery.confirm import changed_facts
from agent.discovery.refresh import refresh, refresh_nodes
from agent.discovery.scan import Scanner
from agent.endpoints import Endpoints, first_lists
from agent.export.given import GivenRecord
from agent.export.leftovers import remove_leftover_drafts
from agent.export.specs import CdiSpecs
from agent.holders import Witnesses, report_of
from agent.host import devlink
from agent.host.altnames import ALTNAMES
from agent.kubelet.checkpoint import Claims
from agent.kubelet.podresources import PodResourcesPoller, PodResourcesRead
from agent.kubelet.resource_locks import ResourceLocks
from agent.kubelet.watch import KubeletWatch
from agent.model.device import Device
from agent.model.events import HostChanged, SnapshotTaken
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.options import RunOptions
from agent.plugin.fleet import Fleet
from agent.pools.needs import class_needs
from agent.pools.pool import Pools
from agent.reconcile import Reconciler
from agent.silent_facts import scan_silent_facts
from agent.stop_signals import STOP_SIGNALS, end_at_next_signal, end_process, received_early
from agent.tasks import run_all
from agent.watch.netlink_watcher import NetlinkWatcher
from agent.watch.rdma_ports import RdmaPortWatch
from agent.watch.rescan import RescanLoop
from agent.watch.tree_watcher import follow_tree

if TYPE_CHECKING:
    from agent.status.state import AgentState, ScanStatus

FIRST_HOLDERS_WITHIN_S = 0.5
"""How long the first lists wait for kubelet to say who holds what, its answer decoded."""
NETLINK_AFTER_S = 1.0
"""When netlink is loaded at the latest; before, as soon as kubelet has its lists."""

STOP_WITHIN_S = 1.8
"""How long the agent takes to stop at most: then the process ends whatever still hangs."""


async def run_agent(options: RunOptions, stop: asyncio.Event | None = None) -> None:
    """Run until a stop signal or ``stop``.

    Raises ConfigError where the configuration cannot be used at the start; a bug passes through.
    """
    asked = _stop_on_signals(stop or asyncio.Event())
    daemon = Daemon(options, asked)
    with daemon.services:
        logs.emit(
            "agent.starting",
            version=__version__,
            pid=os.getpid(),
            host_root=str(options.roots.host),
            kubelet_dir=str(options.roots.kubelet),
            config_file=str(options.config_file),
            registration=options.registration,
            cdi=options.cdi or "off",
            netlink="on" if options.netlink else "off",
            http=options.http_address or "off",
        )
        await daemon.run()
        logs.emit("agent.stopped")


def _stop_on_signals(stop: asyncio.Event) -> asyncio.Event:
    """Set ``stop`` at the first stop signal; the second one ends the process at once."""
    asked: list[signal.Signals] = []

    def ask(number: signal.Signals) -> None:
        if asked:
            end_process(number)
        asked.append(number)
        end_at_next_signal()
        if not stop.is_set():
            logs.emit("agent.stopping", reason=number.name)
            loop.call_later(STOP_WITHIN_S, _end_late)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, ask, number)
    if early := received_early():
        ask(early)
    return stop


def _end_late() -> None:
    """End the process although something has not ended, such as a call that hangs."""
    logs.emit("agent.stopped_late", limit_s=STOP_WITHIN_S)
    logs.flush()
    os._exit(0)


class Daemon:
    """One run of the agent, until ``stop`` is set."""

    def __init__(self, options: RunOptions, stop: asyncio.Event) -> None:
        self.options = options
        self._stop = stop
        self.bus = Bus()
        roots = options.roots
        self.config = ConfigWatcher(
            options.config_file,
            self.bus,
            prefix=options.resource_prefix,
            node_name=options.node_name,
            strict=options.strict,
            cdi=options.cdi is not None,
        )
        self._scanner = Scanner(roots, netlink=options.netlink)
        self.rescan_loop = RescanLoop(self._scan, self.bus)
        self.locks = ResourceLocks(roots, self.bus, options.config_file)
        self._specs = CdiSpecs(roots, on=options.cdi is not None, others=self.locks.others)
        self._given = GivenRecord(roots)
        self.witnesses = Witnesses(options, self.bus, self._resources)
        self.allocator = Allocator(
            roots,
            self.bus,
            lambda: self.reconciler.pools,
            self._reread,
            checks=Checks(
                held=lambda: self.reconciler.tracker.held,
                look=partial(refresh_nodes, roots),
                confirm=partial(changed_facts, roots),
            ),
            cdi=options.cdi,
            specs=self._specs,
            given=self._given,
            policy=options.allocation_policy,
        )
        self.links: NetlinkWatcher | None = None
        self.fleet: Fleet | None = None
        self.reconciler: Reconciler
        self.services = Endpoints(options, self.bus, self.state)
        self._started_at = time.time()
        self._scan_s = 0.0
        self._serving = False

    def _scan(self, generation: int, touched: frozenset[str] | None) -> Snapshot:
        began_s = time.perf_counter()
        snapshot = self._scanner.scan(generation, needs=needs(self.config.config), touched=touched)
        self._scan_s = time.perf_counter() - began_s
        if self.services.counters is not None:
            self.services.counters.scan_s.observe(self._scan_s)
        return snapshot

    def state(self) -> AgentState:
        """Everything that the agent knows now, as one value."""
        from agent.status.state import AgentState  # noqa: PLC0415 - not at the start

        parts = (
            (self.reconciler.pools, self.reconciler.pools_health) if self.fleet else (Pools(), {})
        )
        links = self.links
        return AgentState(
            version=__version__,
            pid=os.getpid(),
            node=self.options.node_name or "",
            started_at=self._started_at,
            now=time.time(),
            loop_s=asyncio.get_running_loop().time(),
            config=self.config.standing,
            waiting_for=self.locks.waiting,
            serving=self._serving,
            stopping=self._stop.is_set(),
            pools=parts[0],
            pools_health=parts[1],
            servers=self.fleet.state() if self.fleet else (),
            scan=self._scan_standing(),
            hanging=tuple(h.path for h in blocking.hanging()),
            lines_dropped=logs.dropped(),
            links=links.links if links else Links(),
            netlink=("open" if links.is_open else "closed") if links else "off",
            overruns=links.overruns if links else 0,
            changed_at=self.services.dates.changed_at,
            resting=self.reconciler.resting() if self.fleet else {},
        )

    def _scan_standing(self) -> ScanStatus:
        from agent.status.state import ScanStatus  # noqa: PLC0415 - not at the start

        rescan_loop = self.rescan_loop
        return ScanStatus(
            rescan_loop.scans, self._scan_s, rescan_loop.stalled_s, rescan_loop.failing
        )

    def _reread(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        return refresh(self.options.roots, devices, self._scanner.rdma)

    async def run(self) -> None:
        """The whole life of the agent, until it is asked to stop."""
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(self._live(tasks), name="life")
            await self._stop.wait()
            life.cancel()

    async def _live(self, tasks: asyncio.TaskGroup) -> None:
        """Tell the first lists, then follow the host until cancelled."""
        roots = self.options.roots
        async with KubeletWatch(roots, self.bus) as kubelet:
            watching = tasks.create_task(kubelet.run(), name="kubelet")
            showing = tasks.create_task(self.services.run(), name="services")
            try:
                await self.config.start()
                with self.locks:
                    await self._serve(tasks)
            finally:
                showing.cancel()
                watching.cancel()

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        roots = self.options.roots
        await remove_leftover_drafts(roots)
        fleet = Fleet(roots, self.allocator, self.bus, tasks, self.options.registration)
        self.reconciler = Reconciler(self.bus, fleet, self._specs, self.locks.want, self._given)
        self.fleet = fleet
        async with fleet:
            follower = PodResourcesPoller(
                self.bus, self.witnesses.ask, lambda: self.reconciler.tracker.held_ids
            )
            self.bus.on(PodResourcesRead, self._holders_told)
            claims = asyncio.ensure_future(self.witnesses.claims())
            asking = asyncio.ensure_future(self.witnesses.ask(claims))
            try:
                snapshot = await self._first_look(claims, asking, follower)
                self._serving = True
                blocking.prepare("reread")  # pods get devices also if no thread can be made later
                gc.freeze()  # modules and the first scan stay: no collection need walk through them
                await run_all(*self._followers(snapshot, follower, asking))
            finally:
                asking.cancel()
                claims.cancel()

    async def _first_look(
        self,
        claims: asyncio.Future[Claims | None],
        asking: asyncio.Future[PodResourcesRead],
        follower: PodResourcesPoller,
    ) -> Snapshot:
        """The first scan, the holders as far as they are known soon, and the first lists."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        reading = asyncio.ensure_future(self.witnesses.records())
        snapshot = await self.rescan_loop.scan_now()
        records = await reading
        self._given.begin(records)
        self.reconciler.config_changed(self.config.config)
        self.reconciler.host_changed(SnapshotTaken(snapshot, settled=True))
        self.reconciler.given_before({i: r for r, ids in records.given.items() for i in ids})
        self._holders_told(PodResourcesRead(None, began, await claims))
        left_s = began + FIRST_HOLDERS_WITHIN_S - loop.time()
        await asyncio.wait({asking}, timeout=max(0.0, left_s))
        if asking.done():
            follower.hear(asking.result())
        if not self.reconciler.tracker.complete:
            self.reconciler.await_holders()
        await self.reconciler.reconcile()
        return snapshot

    def _resources(self) -> frozenset[str]:
        return frozenset(p.resource for p in self.config.config.pools)

    def _holders_told(self, read: PodResourcesRead) -> None:
        word = report_of(read, self._resources(), self.rescan_loop.newest.by_id)
        self.reconciler.holders_told(word, read.asked_at)

    def _followers(
        self,
        snapshot: Snapshot,
        follower: PodResourcesPoller,
        asking: asyncio.Future[PodResourcesRead],
    ) -> Iterator[Coroutine[object, object, None]]:
        """Everything that keeps the state true while the agent runs."""
        options = self.options
        self.bus.on(ConfigChanged, self._config_changed)
        yield self.reconciler.run()
        yield self.locks.run()
        yield self.rescan_loop.run()
        yield self.config.run()
        yield follower.run(None if asking.done() else asking)
        yield RdmaPortWatch(options.roots, self.bus, snapshot).run()
        if options.netlink:
            self.links = NetlinkWatcher(options.roots, self.bus, snapshot)
            yield self._follow_links(self.links)
        if not options.roots.is_real_host:
            yield follow_tree(options.roots, self.bus)
        if options.rescan_s:
            yield self._rescan()
        yield scan_silent_facts(self.bus, lambda: self.reconciler.pools)

    def _config_changed(self, event: ConfigChanged) -> None:
        """Put it in force at once; facts that only it asks for come with the next scan."""
        self.reconciler.config_changed(event.config)
        self.bus.publish(HostChanged("config"))

    async def _follow_links(self, links: NetlinkWatcher) -> None:
        """Load netlink once kubelet has its first lists: the import would delay them."""
        await first_lists(self.bus, NETLINK_AFTER_S if self.reconciler.pools_health else 0)
        await links.run()

    async def _rescan(self) -> None:
        """The safety scan, which works only while kernel events cannot be had."""
        while True:
            await asyncio.sleep(self.options.rescan_s)
            if self.links is None or not self.links.is_open:
                self.bus.publish(HostChanged("timer"))


def needs(config: Config) -> frozenset[str]:
    """Which facts that cost questions to the kernel the configuration asks for."""
    keys = {c.key for p in config.pools for s in p.selectors for c in s.criteria}
    wanted = {devlink.DDP} if "ddpProfiles" in keys else set()
    if any(s.is_rdma for p in config.pools for s in p.selectors):
        wanted.add(devlink.ENABLE_RDMA)
    if "pfNames" in keys:
        wanted.add(ALTNAMES)
    return class_needs(config).union(wanted)

"""The agent at work: serves the resources of this node, and keeps their lists current.

It is built by :mod:`agent.daemon` once the configuration is read and the host is scanned. First
lists, then everything that follows the host; netlink is loaded once kubelet has the lists.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs

from agent import blocking
from agent.attrs_classes import define, frozen
from agent.bus import Bus
from agent.config.watcher import ConfigChanged, ConfigWatcher
from agent.endpoints import first_lists
from agent.kubelet.checkpoint import Claims
from agent.kubelet.podresources import PodResourcesPoller, PodResourcesRead
from agent.kubelet.resource_locks import ResourceLocks
from agent.model.events import HostChanged, SnapshotTaken
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.options import RunOptions
from agent.plugin.fleet import Fleet
from agent.reconcile import Reconciler
from agent.silent_facts import scan_silent_facts
from agent.tasks import run_all
from agent.watch.netlink_watcher import NetlinkWatcher
from agent.watch.rdma_ports import RdmaPortWatch
from agent.watch.rescan import RescanLoop
from agent.watch.tree_watcher import follow_tree

if TYPE_CHECKING:
    from agent.status.state import AgentState

FIRST_HOLDERS_WITHIN_S = 0.5
"""How long the first lists wait for kubelet's answer on which pods hold devices, decoded."""
NETLINK_AFTER_S = 1.0
"""When netlink is loaded at the latest; before, as soon as kubelet has its lists."""


@frozen
class NoNetlink:
    """Takes the place of the netlink watcher where netlink is off."""

    links: Links = Links()
    overruns: int = 0
    is_open: bool = False


@frozen
class HolderQuestions:
    """What kubelet is asked while the host is scanned for the first time."""

    began_s: float
    """Loop time at which both questions were put."""
    claims: asyncio.Future[Claims | None]
    """Reads the checkpoint."""
    asking: asyncio.Future[PodResourcesRead]
    """Asks pod-resources, after the checkpoint was read."""


@define
class Agent:
    """One agent; ``fleet`` and ``locks`` are entered while it runs."""

    options: RunOptions
    bus: Bus
    config: ConfigWatcher
    rescan_loop: RescanLoop
    locks: ResourceLocks
    pod_resources: PodResourcesPoller
    fleet: Fleet
    reconciler: Reconciler
    links: NetlinkWatcher | NoNetlink
    process_state: Callable[[], AgentState]
    """The parts of the state that exist also before the agent is built."""
    _is_serving: bool = attrs.field(default=False, init=False)

    def state(self) -> AgentState:
        """Everything that the agent knows now, as one value."""
        is_open = "open" if self.links.is_open else "closed"
        return attrs.evolve(
            self.process_state(),
            waiting_for=self.locks.waiting,
            serving=self._is_serving,
            pools=self.reconciler.pools,
            pools_health=self.reconciler.pools_health,
            servers=self.fleet.state(),
            links=self.links.links,
            netlink=is_open if self.options.netlink else "off",
            overruns=self.links.overruns,
            resting=self.reconciler.resting(),
        )

    async def run(self, snapshot: Snapshot, questions: HolderQuestions) -> None:
        """Make the first lists from ``snapshot``, then follow the host until cancelled."""
        await self._make_first_lists(snapshot, questions)
        self._is_serving = True
        blocking.prepare("reread")  # Allocate works also if no thread can be made later
        gc.freeze()  # modules and the first scan stay: collections need not walk through them
        with ExitStack() as subscriptions:
            subscriptions.callback(self.bus.on(ConfigChanged, self._scan_for_config))
            await run_all(*self._followers(snapshot, questions.asking))

    async def _make_first_lists(self, snapshot: Snapshot, questions: HolderQuestions) -> None:
        """Publish the first inputs, wait for kubelet's answers for a moment, and make one pass."""
        publish, asking = self.bus.publish, questions.asking
        publish(ConfigChanged(self.config.config))
        publish(SnapshotTaken(snapshot, settled=True))
        publish(PodResourcesRead(None, questions.began_s, await questions.claims))
        deadline_s = questions.began_s + FIRST_HOLDERS_WITHIN_S
        left_s = deadline_s - asyncio.get_running_loop().time()
        await asyncio.wait({asking}, timeout=max(0.0, left_s))
        if asking.done():
            self.pod_resources.hear(asking.result())
        if not self.reconciler.tracker.complete:
            self.reconciler.await_holders()
        await self.reconciler.reconcile()

    def _followers(
        self, snapshot: Snapshot, asking: asyncio.Future[PodResourcesRead]
    ) -> Iterator[Coroutine[object, object, None]]:
        """Everything that keeps the lists current while the agent runs."""
        options = self.options
        yield self.reconciler.run()
        yield self.locks.run()
        yield self.rescan_loop.run()
        yield self.config.run()
        yield self.pod_resources.run(None if asking.done() else asking)
        yield RdmaPortWatch(options.roots, self.bus, snapshot).run()
        if isinstance(self.links, NetlinkWatcher):
            yield self._follow_links(self.links)
        if not options.roots.is_real_host:
            yield follow_tree(options.roots, self.bus)
        if options.rescan_s:
            yield self._rescan()
        yield scan_silent_facts(self.bus, lambda: self.reconciler.pools)

    def _scan_for_config(self, _: ConfigChanged) -> None:
        """Scan for the facts that only the new configuration needs."""
        self.bus.publish(HostChanged())

    async def _follow_links(self, links: NetlinkWatcher) -> None:
        """Load netlink once kubelet has its first lists: the import would delay them."""
        await first_lists(self.bus, NETLINK_AFTER_S if self.reconciler.pools_health else 0)
        await links.run()

    async def _rescan(self) -> None:
        """Scan everything at intervals, only while kernel events are unavailable."""
        while True:
            await asyncio.sleep(self.options.rescan_s)
            if not self.links.is_open:
                self.bus.publish(HostChanged())

"""Starts the agent, and stops it in the opposite order.

Start: read the configuration, scan the host and ask kubelet which pods hold devices side by side,
then build the agent (:mod:`agent.node_agent`), which makes the first lists and follows the host.
Stop: the followers end, then the fleet closes its streams and sockets; CDI specs and device-info
files stay, since running pods need them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from agent import __version__, blocking, logs
from agent.allocator import Allocator, Checks
from agent.bus import Bus
from agent.config.watcher import ConfigWatcher
from agent.discovery.confirm import changed_facts
from agent.discovery.refresh import refresh, refresh_nodes
from agent.discovery.scan import Scanner
from agent.endpoints import Endpoints
from agent.events.agent import AgentStarting, AgentStopped, AgentStoppedLate, AgentStopping
from agent.export.given import GivenRecord, Records
from agent.export.leftovers import remove_leftover_drafts
from agent.export.specs import CdiSpecs
from agent.holders import HolderSources
from agent.kubelet.podresources import PodResourcesPoller
from agent.kubelet.resource_locks import ResourceLocks
from agent.kubelet.watch import KubeletWatch
from agent.model.snapshot import Snapshot
from agent.node_agent import Agent, HolderQuestions, NoNetlink
from agent.options import RunOptions
from agent.plugin.fleet import Fleet
from agent.pools.needs import needs_of
from agent.reconcile import PoolState, Reconciler
from agent.stop_signals import STOP_SIGNALS, end_at_next_signal, end_process, received_early
from agent.watch.netlink_watcher import NetlinkWatcher
from agent.watch.rescan import RescanLoop

if TYPE_CHECKING:
    from agent.status.state import AgentState

STOP_WITHIN_S = 1.65
"""How long stopping may take; then the process ends although something still hangs."""


async def run_agent(options: RunOptions, stop: asyncio.Event | None = None) -> None:
    """Run until a stop signal or ``stop``.

    Raises ConfigError if the configuration cannot be used at the start, and any bug as it is.
    """
    asked = _stop_on_signals(stop or asyncio.Event())
    startup = Startup(options, asked)
    with startup.endpoints:
        logs.emit(
            AgentStarting(
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
        )
        await startup.run()
        logs.emit(AgentStopped())


def _stop_on_signals(stop: asyncio.Event) -> asyncio.Event:
    """Set ``stop`` at the first stop signal; the second one ends the process at once."""
    asked: list[signal.Signals] = []

    def ask(number: signal.Signals) -> None:
        if asked:
            end_process(number)
        asked.append(number)
        end_at_next_signal()
        if not stop.is_set():
            logs.emit(AgentStopping(reason=number.name))
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
    logs.emit(AgentStoppedLate(limit_s=STOP_WITHIN_S))
    logs.flush()
    os._exit(0)


class Startup:
    """What exists before the agent serves: reads the configuration, scans, builds the agent.

    ``endpoints`` is entered around ``run``. Until the agent is built, ``state`` has the parts that
    the process has.
    """

    def __init__(self, options: RunOptions, stop: asyncio.Event) -> None:
        self._options = options
        self._stop = stop
        self._started_at = time.time()
        self.bus = Bus()
        self._config = ConfigWatcher(
            options.config_file,
            self.bus,
            prefix=options.resource_prefix,
            node_name=options.node_name,
            strict=options.strict,
            cdi=options.cdi is not None,
        )
        self.endpoints = Endpoints(options, self.bus, self.state)
        self._scanner = Scanner(options.roots, netlink=options.netlink)
        self._scan_s = 0.0
        self._rescan_loop = RescanLoop(self._scan, self.bus)
        self._holders = HolderSources(
            options, self.bus, self._resources, lambda: self._rescan_loop.newest.by_id
        )
        self.pool_state = PoolState()
        self._pod_resources = PodResourcesPoller(
            self.bus, self._holders.ask, lambda: self.pool_state.tracker.held_ids
        )
        self._read_state = self._process_state

    def state(self) -> AgentState:
        """Everything that is known now, as one value."""
        return self._read_state()

    def _process_state(self) -> AgentState:
        """The parts of the state that exist from the start on."""
        from agent.status.state import AgentState, ScanStatus  # noqa: PLC0415 - not at the start

        scans = self._rescan_loop
        return AgentState(
            version=__version__,
            pid=os.getpid(),
            node=self._options.node_name or "",
            started_at=self._started_at,
            now=time.time(),
            loop_s=asyncio.get_running_loop().time(),
            config=self._config.status,
            stopping=self._stop.is_set(),
            scan=ScanStatus(scans.scans, self._scan_s, scans.stalled_s, scans.failing),
            hanging=tuple(h.path for h in blocking.hanging()),
            lines_dropped=logs.dropped(),
            netlink="closed" if self._options.netlink else "off",
            changed_at=self.endpoints.dates.changed_at,
        )

    def _scan(self, touched: frozenset[str] | None) -> Snapshot:
        began_s = time.perf_counter()
        wanted = needs_of(self._config.config)
        snapshot = self._scanner.scan(needs=wanted, touched=touched)
        self._scan_s = time.perf_counter() - began_s
        if self.endpoints.counters is not None:
            self.endpoints.counters.scan_s.observe(self._scan_s)
        return snapshot

    def _resources(self) -> frozenset[str]:
        return frozenset(p.resource for p in self._config.config.pools)

    async def run(self) -> None:
        """The whole life of the agent, until it is asked to stop."""
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(self._live(tasks), name="life")
            await self._stop.wait()
            life.cancel()

    async def _live(self, tasks: asyncio.TaskGroup) -> None:
        """Read the configuration, then serve until cancelled."""
        roots = self._options.roots
        async with KubeletWatch(roots, self.bus) as kubelet:
            watching = tasks.create_task(kubelet.run(), name="kubelet")
            showing = tasks.create_task(self.endpoints.run(), name="endpoints")
            try:
                await self._config.start()
                with ResourceLocks(roots, self.bus, self._options.config_file) as locks:
                    await self._serve(tasks, locks)
            finally:
                showing.cancel()
                watching.cancel()

    async def _serve(self, tasks: asyncio.TaskGroup, locks: ResourceLocks) -> None:
        """Scan, and ask kubelet which pods hold devices, side by side; then build the agent."""
        await remove_leftover_drafts(self._options.roots)
        began_s = asyncio.get_running_loop().time()
        claims = asyncio.ensure_future(self._holders.claims())
        asking = asyncio.ensure_future(self._holders.ask(claims))
        try:
            records = asyncio.ensure_future(self._holders.records())
            snapshot = await self._rescan_loop.scan_now()
            agent = self._build(tasks, locks, snapshot, await records)
            async with agent.fleet:
                self._read_state = agent.state
                await agent.run(snapshot, HolderQuestions(began_s, claims, asking))
        finally:
            asking.cancel()
            claims.cancel()

    def _build(
        self, tasks: asyncio.TaskGroup, locks: ResourceLocks, snapshot: Snapshot, records: Records
    ) -> Agent:
        """The agent; ``records`` are what earlier runs gave to pods."""
        options, roots, bus, state = self._options, self._options.roots, self.bus, self.pool_state
        given = GivenRecord(roots, locks.others)
        given.begin(records)
        recorded = {i: resource for resource, ids in records.given.items() for i in ids}
        state.tracker = state.tracker.recorded(recorded)
        specs = CdiSpecs(roots, on=options.cdi is not None, others=locks.others)
        allocator = Allocator(
            roots,
            bus,
            lambda: state.pools,
            lambda devices: refresh(roots, devices, self._scanner.rdma),
            checks=Checks(
                held=lambda: state.tracker.held,
                look=partial(refresh_nodes, roots),
                confirm=partial(changed_facts, roots),
            ),
            cdi=options.cdi,
            specs=specs,
            given=given,
            policy=options.allocation_policy,
        )
        fleet = Fleet(roots, allocator, bus, tasks, options.registration)
        return Agent(
            options=options,
            bus=bus,
            config=self._config,
            rescan_loop=self._rescan_loop,
            locks=locks,
            pod_resources=self._pod_resources,
            fleet=fleet,
            reconciler=Reconciler(bus, fleet, specs, locks.want, given, state),
            links=NetlinkWatcher(roots, bus, snapshot) if options.netlink else NoNetlink(),
            process_state=self._process_state,
        )

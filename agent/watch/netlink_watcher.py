"""Follows links, uevents and routes on netlink sockets; publishes facts and hints for scans."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from contextlib import aclosing

import attrs

from agent import logs
from agent.bus import Bus
from agent.events.netlink import NetlinkLost, NetlinkOpened, NetlinkOverrun
from agent.host.addresses import name_of
from agent.host.link_socket import Netlink, open_netlink
from agent.host.route_events import AddressChange, DefaultRouteEvents, LinkChange
from agent.host.uevents import Overrun, Uevent
from agent.model.device import Netdev, Role
from agent.model.events import HostChanged, LinksChanged, SnapshotTaken
from agent.model.link import LinkFact, Links, link_netdevs
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from agent.tasks import Retry, keep_running, run_all
from agent.watch.host_use import numbers, touched_by_link
from agent.watch.uevents import is_relevant, may_become_relevant, touched_by

ASK_PAUSE_S = 0.25
"""Minimum time between two requests for the VFs of the PFs, whose answers are long."""
FLUSH_S = 0.05
"""The kernel reports the end of an address or a link before it removes their routes."""


class NetlinkWatcher:
    """Keeps :attr:`links` up to date; publishes LinksChanged and hints for a scan.

    If a socket fails, it is opened again; then all links are requested and the host is scanned.
    """

    def __init__(self, roots: Roots, bus: Bus, snapshot: Snapshot) -> None:
        self.links = Links(by_number=roots.is_real_host)
        self.overruns = 0
        self.is_open = False
        """Whether the sockets are open."""
        self._roots = roots
        self._bus = bus
        self._snapshot = snapshot
        self._carriers = frozenset(carriers(snapshot))
        self._netlink: Netlink | None = None
        self._routes: DefaultRouteEvents | None = None
        self._watched: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        """Ifindexes of devices' netdevs with an address, and of those with a master."""
        self._ifindexes: frozenset[int] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._ipoib: frozenset[int | str | None] = frozenset()
        """IPoIB netdevs, by ifindex or name."""
        self._to_ask: set[str] = set()
        self._heard: set[int] = set()
        """Ifindexes of interfaces with an event since the last request."""
        self._asking = asyncio.Event()
        self._congested = asyncio.Event()
        """The kernel drops events; it reports that once until the queue was read completely."""

    async def run(self) -> None:
        """Follow the sockets until cancelled; if none can be opened, log it once and retry."""
        leave = self._bus.on(SnapshotTaken, lambda e: self._follow_snapshot(e.snapshot))
        try:
            await keep_running(
                self._session, expected=(OSError,), retry=Retry(), failed=self._failed
            )
        finally:
            leave()

    def _failed(self, error: BaseException, failures: int) -> None:
        self.is_open = False
        logs.emit_once(NetlinkLost(error=str(error), failures=failures), "")

    async def _session(self) -> None:
        async with await open_netlink() as netlink, DefaultRouteEvents() as routes:
            self._netlink, self._routes = netlink, routes
            self._watched = (frozenset(), frozenset())
            self.is_open = True
            logs.forget(NetlinkLost, "")
            gc.freeze()  # imported modules stay in memory: exclude them from collections
            logs.emit(NetlinkOpened(receive_buffer_bytes=netlink.receive_buffer_bytes))
            self._ask_all()
            self._watch_routes()
            self._bus.publish(HostChanged())
            await run_all(
                self._follow_links(netlink),
                self._follow_uevents(netlink),
                self._follow_routes(routes),
                self._answer_questions(netlink),
                self._wait_out_congestion(netlink),
            )

    def _follow_snapshot(self, snapshot: Snapshot) -> None:
        """Request the facts of new interfaces; forget those of interfaces that left."""
        if snapshot == self._snapshot:
            return
        before, self._carriers = self._carriers, frozenset(carriers(snapshot))
        self._snapshot = snapshot
        self._narrow()
        self._watch_routes()
        if fresh := self._carriers - before:
            self._ask(n.name for n in fresh)

    def _narrow(self) -> None:
        """Drop events and facts of interfaces that decide on no device."""
        self._ifindexes = frozenset(n.ifindex for n in self._carriers if n.ifindex is not None)
        self._names = frozenset(n.name for n in self._carriers)
        self._ipoib = frozenset(
            n.ifindex if self.links.by_number else n.name
            for n in self._carriers
            if n.link_type == "infiniband"
        )
        facts = self.links.by_ifindex.values()
        kept = (f for f in facts if f.ifindex in self._ifindexes or self._is_named(f))
        self.links = attrs.evolve(self.links, by_ifindex={f.ifindex: f for f in kept})
        self._filter()

    def _filter(self) -> None:
        """Set the socket's filter to the ifindexes of the scan and those known from netlink."""
        if self._netlink is not None:
            self._netlink.only(self._ifindexes | self.links.by_ifindex.keys())

    def _ask(self, names: Iterable[str]) -> None:
        self._to_ask.update(names)
        self._asking.set()

    def _ask_all(self) -> None:
        self._narrow()
        self._ask(self._names)

    async def _follow_links(self, netlink: Netlink) -> None:
        async with aclosing(netlink.links()) as messages:
            async for message in messages:
                if isinstance(message, Overrun):
                    self._overrun()
                else:
                    self._take(message)

    def _overrun(self) -> None:
        self.overruns += 1
        logs.emit(NetlinkOverrun(overruns=self.overruns))
        self._make_good()
        self._congested.set()

    def _make_good(self) -> None:
        """Request everything that may have been dropped, and hint at a whole scan."""
        self._ask_all()
        self._bus.publish(HostChanged())

    async def _wait_out_congestion(self, netlink: Netlink) -> None:
        """Request all again when the queue was read: the kernel does not report further drops."""
        while True:
            await self._congested.wait()
            await asyncio.sleep(ASK_PAUSE_S)
            if netlink.is_drained():
                self._congested.clear()
                self._make_good()

    def _take(self, fact: LinkFact, *, answered: bool = False) -> None:
        """Use one fact if it is about a relevant interface.

        On the host's own root, the ifindex identifies the interface. On a laid-out tree the name
        does: there, an ifindex counts only once netlink has reported it with a scanned name.
        """
        before = self.links.by_ifindex.get(fact.ifindex)
        is_scanned = self._is_named(fact) or (
            self.links.by_number and fact.ifindex in self._ifindexes
        )
        if before is None and not is_scanned:
            if fact.ifindex in self._ifindexes and not answered:
                self._bus.publish(HostChanged(self._owners(fact)))
            return
        if not answered:
            self._heard.add(fact.ifindex)
        elif before is not None and fact.ifindex in self._heard:
            fact = attrs.evolve(before, vf_policies=fact.vf_policies)  # the event is newer
        links = self.links.with_fact(fact)
        if links.by_ifindex[fact.ifindex] != before:
            self.links = links
            self._filter()
            self._bus.publish(LinksChanged(links, asyncio.get_running_loop().time()))
            if self._moved(before, fact):
                known = (fact,) if before is None else (before, fact)
                self._bus.publish(HostChanged(self._owners(*known)))
        if not answered and not fact.gone:
            self._ask({fact.name})

    def _is_named(self, fact: LinkFact) -> bool:
        """Whether the name identifies a scanned interface."""
        return fact.name in self._names and not self.links.by_number

    def _owners(self, *facts: LinkFact) -> frozenset[str] | None:
        """Ids of the devices that have these netdevs, by name or ifindex; None = unknown."""
        owners = self._snapshot.netdev_owner
        names = {n.name for n in self._carriers if n.ifindex in {f.ifindex for f in facts}}
        known = [owners.get(name) for name in names | {f.name for f in facts}]
        found = frozenset(owner.id for owner in known if owner is not None)
        return found or None

    def _moved(self, before: LinkFact | None, fact: LinkFact) -> bool:
        """Whether more changed than the link's state: names, master, or the namespace.

        The first facts about an interface are compared with the scan. For IPoIB every change
        counts, because only a scan reads the state of the RDMA port.
        """
        if before is None:
            scanned = next((n for n in self._carriers if self._is(n, fact)), None)
            if scanned is None:
                return False
            return scanned.name != fact.name or (scanned.master is None) != (fact.master is None)
        if fact.ifindex in self._ipoib or fact.name in self._ipoib:
            return True
        old = (before.name, before.master, before.gone, before.altnames)
        return old != (fact.name, fact.master, fact.gone, fact.altnames)

    def _is(self, netdev: Netdev, fact: LinkFact) -> bool:
        """Whether a fact is about a scanned netdev."""
        if self.links.by_number:
            return netdev.ifindex == fact.ifindex
        return netdev.name == fact.name

    async def _answer_questions(self, netlink: Netlink) -> None:
        """Request the facts of interfaces with an event: only answers contain the VFs' policies."""
        while True:
            await self._asking.wait()
            self._asking.clear()
            pending, self._to_ask = self._to_ask, set()
            for name in sorted(pending):
                self._heard.clear()
                fact = await netlink.ask(name)
                if fact is not None:
                    self._take(fact, answered=True)
            await asyncio.sleep(ASK_PAUSE_S)

    async def _follow_uevents(self, netlink: Netlink) -> None:
        async with aclosing(netlink.uevents()) as events:
            async for event in events:
                if isinstance(event, Overrun):
                    self._overrun()
                else:
                    self._take_uevent(event)

    def _take_uevent(self, event: Uevent) -> None:
        if not self._hint_at(event) and may_become_relevant(event):
            # The kernel reports a VLAN before it links it to its lower interface.
            asyncio.get_running_loop().call_later(FLUSH_S, self._hint_at, event)
        if event.interface in self._names:
            self._ask({event.interface})

    def _hint_at(self, event: Uevent) -> bool:
        """Hint at a scan if a scan could see the change; return whether it could."""
        if not is_relevant(event, self._snapshot, self._roots):
            return False
        self._bus.publish(HostChanged(touched_by(event)))
        return True

    async def _follow_routes(self, routes: DefaultRouteEvents) -> None:
        """Hint at a scan when the host's use of a device's netdev may have changed."""
        while True:
            change = await routes.changed()
            touched: frozenset[str] | None = frozenset()
            if isinstance(change, AddressChange):
                if not self._is_watched(name_of(change.ifindex)):
                    continue
                await asyncio.sleep(FLUSH_S)
            elif isinstance(change, LinkChange):
                touched = touched_by_link(change, self._snapshot)
                if touched is None:
                    if not (change.is_down and self._ends_routes(change.name)):
                        continue
                    touched = frozenset()
                    await asyncio.sleep(FLUSH_S)
            self._bus.publish(HostChanged(touched))

    def _is_watched(self, name: str) -> bool:
        """Whether routes of an interface matter: it has a default route, or is a VF's or SF's."""
        if name in self._snapshot.default_route_netdevs:
            return True
        owner = self._snapshot.netdev_owner.get(name)
        return owner is not None and owner.role is not Role.PF

    def _ends_routes(self, name: str) -> bool:
        """Whether routes that matter end when an interface is set down."""
        snapshot = self._snapshot
        return name in snapshot.default_route_netdevs or name in snapshot.addressed_netdevs

    def _watch_routes(self) -> None:
        """Accept route events of the netdevs that the host uses now."""
        if self._routes is None:
            return
        addressed = frozenset(numbers(self._snapshot.addressed_netdevs))
        stacked = frozenset(numbers(name for name, _ in self._snapshot.masters))
        if (addressed, stacked) != self._watched:
            try:
                self._routes.watch(addressed, stacked)
            except OSError:  # the socket failed; the next session opens another one
                return
            self._watched = (addressed, stacked)
            self._bus.publish(HostChanged(frozenset()))  # it may have changed before


def carriers(snapshot: Snapshot) -> tuple[Netdev, ...]:
    """The netdevs that decide on the link of any device, each once."""
    return tuple(dict.fromkeys(link_netdevs(snapshot.devices, snapshot)))

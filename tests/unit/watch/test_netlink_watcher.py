"""The follower of links, uevents and routes, on real netlink in namespaces of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from agent.bus import Bus
from agent.host.link_socket import Netlink
from agent.host.uevents import Uevent
from agent.model.device import Device, Netdev
from agent.model.events import HostChanged, LinksChanged, SnapshotTaken
from agent.model.link import LinkFact
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from agent.watch.netlink_watcher import NetlinkWatcher, carriers
from tests.support.devices import host, pf, sf, vf
from tests.support.hearing import hearing
from tests.support.inside import in_own_network, ip, needs_root
from tests.support.log_lines import LogLines
from tests.support.netns import NetNamespace
from tests.support.usage import without_descriptors

T = TypeVar("T")
PATIENCE_S = 20.0
PF0 = pf("0000:3b:00.0", "pf0")
PF1 = pf("0000:3b:00.1", "pf1")
OF_PF0: frozenset[str] | None = frozenset({PF0.id})
OF_ROUTES: frozenset[str] | None = frozenset()
"""A scan of nothing but what each scan reads: routes are part of it."""


@attrs.define
class Follower:
    """A link monitor at work, and what it published."""

    bus: Bus
    rescan_loop: NetlinkWatcher
    links: list[LinksChanged] = attrs.Factory(list)
    scans: list[frozenset[str] | None] = attrs.Factory(list)
    """The devices of each requested scan; None = all."""
    happened: asyncio.Event = attrs.Factory(asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.bus.on(LinksChanged, self._note_links)
        self.bus.on(HostChanged, self._note_hint)

    def _note_links(self, event: LinksChanged) -> None:
        self.links.append(event)
        self.happened.set()

    def _note_hint(self, event: HostChanged) -> None:
        self.scans.append(event.touched)
        self.happened.set()

    def fact(self, name: str = "pf0") -> LinkFact | None:
        """What is known of an interface."""
        facts = self.rescan_loop.links.by_ifindex.values()
        return next((f for f in facts if f.name == name), None)

    def carrier(self, name: str = "pf0") -> bool | None:
        """Its carrier, None where nothing is known."""
        fact = self.fact(name)
        return fact.carrier if fact else None

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until it holds, looked at whenever something was published."""
        while not condition():
            self.happened.clear()
            await self.happened.wait()


def following(
    work: Callable[[Follower], Coroutine[object, object, T]],
    *devices: Device,
    opened: bool = True,
    root: Path = Path("/nowhere"),
    known: tuple[str, ...] | None = None,
) -> T:
    """Run ``work`` beside a monitor, in a namespace with the cables pf0-peer0 and pf1-peer1."""

    async def main() -> T:
        for n in range(2):
            ip(f"link add pf{n} type veth peer name peer{n}", f"link set pf{n} up")
            ip(f"link set peer{n} up")
        bus = Bus()
        follower = Follower(bus, NetlinkWatcher(Roots(root), bus, host(*devices)))
        running = asyncio.create_task(follower.rescan_loop.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                if opened:
                    names = known or [d.pf_name or "" for d in devices]
                    await follower.until(lambda: all(follower.fact(n) for n in names))
                    await follower.until(lambda: None in follower.scans)
                    follower.scans.clear()
                return await work(follower)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return in_own_network(lambda: asyncio.run(main()))


@pytest.mark.root
@needs_root
def test_opening_the_socket_requests_every_pf_and_a_scan() -> None:
    async def work(at: Follower) -> tuple[bool | None, bool | None, bool]:
        return at.carrier("pf0"), at.carrier("pf1"), at.rescan_loop.is_open

    assert following(work, PF0, PF1) == (True, True, True)


@pytest.mark.root
@needs_root
def test_each_time_a_cable_is_pulled_or_plugged_in_it_is_reported() -> None:
    async def work(at: Follower) -> list[bool | None]:
        for _ in range(2):
            ip("link set peer0 down")
            await at.until(lambda: at.carrier() is False)
            ip("link set peer0 up")
            await at.until(lambda: at.carrier() is True)
        told = [e.links.newest(Netdev("pf0")) for e in at.links]
        carriers_told = [n.carrier for n in told if n is not None]
        changes = zip([None, *carriers_told], carriers_told, strict=False)
        return [now for before, now in changes if now is not before]

    assert following(work, PF0) == [True, False, True, False, True]


@pytest.mark.root
@needs_root
def test_a_change_of_the_link_state_alone_causes_no_scan() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("link set peer0 down")
        await at.until(lambda: at.carrier() is False)
        ip("link set peer0 up")
        await at.until(lambda: at.carrier() is True)
        return at.scans

    assert following(work, PF0) == []


@pytest.mark.root
@needs_root
def test_interfaces_without_devices_publish_nothing() -> None:
    async def work(at: Follower) -> set[str]:
        at.links.clear()
        ip(*("link set peer1 down", "link set peer1 up") * 100)
        ip("link set peer0 down")
        await at.until(lambda: at.carrier() is False)
        return {f.name for e in at.links for f in e.links.by_ifindex.values()}

    assert following(work, PF0) == {"pf0"}


@pytest.mark.root
@needs_root
def test_a_rename_is_reported_with_the_state_and_causes_a_scan() -> None:
    async def work(at: Follower) -> tuple[bool, bool]:
        before = at.fact()
        ip("link set pf0 name eno1")
        await at.until(lambda: at.fact("eno1") and OF_PF0 in at.scans)
        after = at.fact("eno1")
        assert before is not None
        assert after is not None
        return after.ifindex == before.ifindex, at.fact() is None

    assert following(work, PF0) == (True, True)


@pytest.mark.root
@needs_root
def test_a_pf_whose_netdev_moves_to_another_namespace_is_gone_and_causes_a_scan() -> None:
    async def work(at: Follower) -> Netdev | None:
        with NetNamespace() as pod:
            ip(f"link set pf0 netns {pod.pid}")
            await at.until(lambda: (fact := at.fact()) and fact.gone and OF_PF0 in at.scans)
            return at.links[-1].links.newest(Netdev("pf0"))

    assert following(work, PF0) is None


@pytest.mark.root
@needs_root
def test_a_pf_that_joined_a_bridge_while_it_was_scanned_is_scanned_again() -> None:
    async def work(at: Follower) -> frozenset[str] | None:
        ip("link add br0 type bridge", "link set pf1 master br0")
        at.bus.publish(SnapshotTaken(host(PF0, PF1), settled=True))
        await at.until(lambda: frozenset({PF1.id}) in at.scans)
        return at.scans[-1]

    assert following(work, PF0) == frozenset({PF1.id})


@pytest.mark.root
@needs_root
def test_a_pf_that_joins_or_leaves_a_bridge_causes_a_scan() -> None:
    async def work(at: Follower) -> bool:
        ip("link add br0 type bridge", "link set pf0 master br0")
        await at.until(lambda: (fact := at.fact()) and fact.master and OF_PF0 in at.scans)
        at.scans.clear()
        ip("link set pf0 nomaster")
        await at.until(lambda: (fact := at.fact()) and not fact.master and OF_PF0 in at.scans)
        fact = at.fact()
        return fact is not None and not fact.gone

    assert following(work, PF0)


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(
    "commands",
    [
        ("link set pf0 name eno1",),
        ("link add br0 type bridge", "link set pf0 master br0"),
        ("link delete pf0",),
    ],
)
def test_a_link_that_is_a_reason_to_scan_names_the_function_that_it_belongs_to(
    commands: tuple[str, ...],
) -> None:
    async def work(at: Follower) -> set[frozenset[str] | None]:
        ip(*commands)
        await at.until(lambda: OF_PF0 in at.scans)
        return {named for named in at.scans if named}

    assert following(work, PF0, PF1) == {OF_PF0}


@pytest.mark.root
@needs_root
def test_an_overrun_causes_a_full_scan_and_a_route_event_a_scan_without_functions() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        at.rescan_loop._overrun()
        ip("addr add 192.0.2.1/24 dev pf0", "route add default dev pf0")
        await at.until(lambda: OF_ROUTES in at.scans)
        return at.scans

    assert following(work, PF0)[:2] == [None, OF_ROUTES]


@pytest.mark.root
@needs_root
def test_a_pf_that_a_later_scan_finds_is_requested_and_watched() -> None:
    async def work(at: Follower) -> bool:
        at.bus.publish(SnapshotTaken(host(PF0, PF1), settled=True))
        await at.until(lambda: at.carrier("pf1") is True)
        ip("link set peer1 down")
        await at.until(lambda: at.carrier("pf1") is False)
        return True

    assert following(work, PF0)


@pytest.mark.root
@needs_root
def test_a_pf_that_a_later_scan_does_not_find_is_forgotten_and_no_longer_watched() -> None:
    async def work(at: Follower) -> set[str]:
        at.bus.publish(SnapshotTaken(host(PF1), settled=True))
        at.links.clear()
        ip("link set peer0 down", "link set peer1 down")
        await at.until(lambda: at.carrier("pf1") is False)
        return {f.name for e in at.links for f in e.links.by_ifindex.values()}

    assert following(work, PF0, PF1) == {"pf1"}


@pytest.mark.root
@needs_root
def test_the_number_of_another_interface_is_not_treated_as_the_own_one() -> None:
    """A tree that stands in for another machine has numbers of its own."""

    async def work(at: Follower) -> set[str]:
        assert at.rescan_loop._netlink is not None
        stranger = await at.rescan_loop._netlink.ask("pf0")
        assert stranger is not None
        own = Netdev("ens9", ifindex=stranger.ifindex)
        elsewhere = pf("0000:5e:00.0", "ens9", netdevs=(own,))
        at.bus.publish(SnapshotTaken(host(elsewhere, PF1), settled=True))
        ip("link set pf0 down")
        await at.until(lambda: frozenset({elsewhere.id}) in at.scans)
        ip("link set peer1 down")
        await at.until(lambda: at.carrier("pf1") is False)
        assert at.links[-1].links.newest(own) == own
        return {f.name for e in at.links for f in e.links.by_ifindex.values()}

    assert following(work, PF1) == {"pf1"}


@pytest.mark.root
@needs_root
def test_a_default_route_is_a_reason_to_scan_and_another_route_is_not() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("addr add 192.0.2.1/24 dev pf0", "route add 10.0.0.0/8 dev pf0")
        ip("route add default dev pf0")
        await at.until(lambda: OF_ROUTES in at.scans)
        return at.scans

    assert following(work, PF0).count(OF_ROUTES) == 1


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("command", ["addr del 192.0.2.1/24 dev pf0", "link set pf0 down"])
def test_setting_down_the_interface_of_the_default_route_causes_a_scan(
    command: str,
) -> None:
    async def work(at: Follower) -> bool:
        ip("addr add 192.0.2.1/24 dev pf0", "route add default via 192.0.2.9")
        await at.until(lambda: OF_ROUTES in at.scans)
        uplink = Snapshot(devices=(PF0,), default_route_netdevs=("pf0",))
        at.bus.publish(SnapshotTaken(uplink, settled=True))
        at.scans.clear()
        ip(command)
        await at.until(lambda: OF_ROUTES in at.scans)
        return True

    assert following(work, PF0)


@pytest.mark.root
@needs_root
def test_another_interface_that_goes_down_does_not_concern_routes() -> None:
    async def work(at: Follower) -> int:
        ip("addr add 192.0.2.1/24 dev pf0", "addr add 198.51.100.1/24 dev pf1")
        ip("addr del 198.51.100.1/24 dev pf1", "link set pf1 down", "route add default dev pf0")
        await at.until(lambda: OF_ROUTES in at.scans)
        return at.scans.count(OF_ROUTES)

    assert following(work, PF0) == 1


VF0 = vf("0000:3b:02.0", PF0, 0, netdevs=(Netdev("pf1"),))
"""A VF whose netdev is the cable pf1."""
OF_VF0 = frozenset({VF0.id})


@pytest.mark.root
@needs_root
def test_a_vf_that_joins_or_leaves_a_bridge_causes_a_scan_and_is_named() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("link add br0 type bridge", "link set pf1 master br0")
        await at.until(lambda: OF_VF0 in at.scans)
        joined = attrs.evolve(host(PF0, VF0), masters=(("pf1", "br0"),))
        at.bus.publish(SnapshotTaken(joined, settled=True))
        at.scans.clear()
        ip("link set pf1 nomaster")
        await at.until(lambda: OF_VF0 in at.scans)
        return at.scans

    assert OF_VF0 in following(work, PF0, VF0, known=("pf0",))


@pytest.mark.root
@needs_root
def test_an_event_of_a_vf_whose_bridge_is_in_the_scan_causes_no_further_scan() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("link add br0 type bridge", "link set pf1 master br0")
        await at.until(lambda: OF_VF0 in at.scans)
        joined = attrs.evolve(host(PF0, VF0), masters=(("pf1", "br0"),))
        at.bus.publish(SnapshotTaken(joined, settled=True))
        await at.until(lambda: at.rescan_loop._watched[1])
        at.scans.clear()
        ip("link set pf1 alias port", "link set pf1 mtu 1400", "link set peer0 down")
        await at.until(lambda: at.carrier() is False)
        return at.scans

    assert following(work, PF0, VF0, known=("pf0",)) == []


@pytest.mark.root
@needs_root
def test_an_address_of_a_vf_and_a_route_through_it_cause_a_scan() -> None:
    async def work(at: Follower) -> bool:
        ip("addr add 192.0.2.1/32 dev pf1")
        await at.until(lambda: OF_ROUTES in at.scans)
        addressed = attrs.evolve(host(PF0, VF0), addressed_netdevs=("pf1",))
        at.bus.publish(SnapshotTaken(addressed, settled=True))
        for command in ("route add 10.0.0.0/8 dev pf1", "link set pf1 down"):
            at.scans.clear()
            ip(command)
            await at.until(lambda: OF_ROUTES in at.scans)
        return True

    assert following(work, PF0, VF0, known=("pf0",))


@pytest.mark.root
@needs_root
def test_a_scan_that_ends_while_the_socket_for_routes_is_closed_is_not_an_error() -> None:
    async def work(at: Follower) -> bool:
        routes = at.rescan_loop._routes
        assert routes is not None
        routes._socket.close()
        ip("addr add 192.0.2.1/32 dev pf1")
        addressed = attrs.evolve(host(PF0, VF0), addressed_netdevs=("pf1",))
        at.bus.publish(SnapshotTaken(addressed, settled=True))
        assert at.rescan_loop._watched == (frozenset(), frozenset())
        return True

    assert following(work, PF0, VF0, known=("pf0",))


@pytest.mark.root
@needs_root
def test_a_vlan_on_top_of_a_vf_causes_a_scan_even_if_it_is_linked_late(
    tmp_path: Path,
) -> None:
    vlan = tmp_path / "sys/class/net/vlan7"

    async def work(at: Follower) -> list[frozenset[str] | None]:
        event = Uevent("add", "/devices/virtual/net/vlan7", "net")
        at.rescan_loop._take_uevent(event)
        assert at.scans == []
        (vlan / "lower_pf1").mkdir(parents=True)
        await at.until(lambda: at.scans)
        return at.scans

    assert following(work, PF0, VF0, known=("pf0",), root=tmp_path) == [None]


@pytest.mark.root
@needs_root
def test_an_interface_in_the_snapshot_causes_a_scan_when_it_appears() -> None:
    late = pf("0000:3b:00.2", None, netdevs=(Netdev("late0"),))

    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("link add pod0 type veth peer name pod1", "link delete pod0")
        ip("link add late0 type veth peer name late1")
        await at.until(lambda: at.scans and at.fact("late0"))
        return at.scans

    assert set(following(work, late, opened=False)) <= {None, frozenset({late.id})}


@pytest.mark.root
@needs_root
def test_lost_events_cause_requests_and_a_scan(log_lines: LogLines) -> None:
    async def work(at: Follower) -> int:
        assert at.rescan_loop._netlink is not None
        raw = at.rescan_loop._netlink._events.socket
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        ip(*("link set pf0 down", "link set pf0 up") * 50, "link set peer0 down")
        await at.until(lambda: None in at.scans)
        await at.until(lambda: at.carrier() is False)
        told = at.rescan_loop.overruns
        await at.until(lambda: at.scans.count(None) > told)  # once more, when all was read
        return told

    assert following(work, PF0) >= 1
    assert "netlink.overrun" in log_lines.events()


@pytest.mark.root
@needs_root
def test_sockets_that_fail_are_opened_again_and_missed_facts_are_requested(
    log_lines: LogLines,
) -> None:
    async def work(at: Follower) -> tuple[bool, bool | None]:
        first = at.rescan_loop._netlink
        assert first is not None

        def broken(*_: object, **__: object) -> None:
            raise OSError(errno.EBADF, "socket died")

        first._questions.nlm_request = broken
        ip("link set peer0 down")
        await at.until(lambda: None in at.scans)
        ip("link set peer0 up")
        await at.until(lambda: at.carrier() is True)
        return at.rescan_loop._netlink is not first and at.rescan_loop.is_open, at.carrier()

    assert following(work, PF0) == (True, True)
    assert log_lines.events() == ["netlink.open", "netlink.lost", "netlink.open"]
    assert log_lines.fields("netlink.lost") == [{"error": "[Errno 9] socket died", "failures": 0}]


@pytest.mark.root
@needs_root
def test_a_node_that_allows_no_socket_is_logged_once_and_tried_again(log_lines: LogLines) -> None:
    async def work(at: Follower) -> bool:
        with without_descriptors():
            await heard.until("netlink.lost")
        await at.until(lambda: at.carrier() is True)
        return at.rescan_loop.is_open

    with hearing() as heard:
        assert following(work, PF0, opened=False)
    assert log_lines.events() == ["netlink.lost", "netlink.open"]


@pytest.mark.root
@needs_root
def test_an_answer_never_overwrites_an_event_that_came_after_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Netlink.ask
    meanwhile: list[Callable[[], Coroutine[object, object, None]]] = []

    async def slow_ask(self: Netlink, name: str) -> LinkFact | None:
        answer = await ask(self, name)
        if meanwhile:
            await meanwhile.pop()()
        return answer

    async def work(at: Follower) -> bool | None:
        async def pull() -> None:
            ip("link set peer0 down")
            await at.until(lambda: at.carrier() is False)
            pulled.set()  # and the old answer is taken in before anybody else has a turn

        pulled = asyncio.Event()
        await at.until(lambda: at.carrier() is True)
        meanwhile.append(pull)
        ip("link set pf0 mtu 1400")  # an event without news makes it ask
        await pulled.wait()
        return at.carrier()

    monkeypatch.setattr(Netlink, "ask", slow_ask)
    assert following(work, PF0) is False


def test_links_depend_on_the_netdevs_of_pfs_and_of_functions_without_a_pf_here() -> None:
    parent = pf("0000:3b:00.0", "pf0", num_vfs=1)
    own = (Netdev("own"),)
    node = host(
        parent,
        vf("0000:3b:02.0", parent, 0, netdevs=own),
        sf(parent, 1, netdevs=own),
        vf("0000:05:00.0", None, netdevs=(Netdev("guest"),)),
        vf("0000:06:00.0", pf("0000:99:00.0", "away"), netdevs=(Netdev("stray"),)),
    )
    assert [n.name for n in carriers(node)] == ["pf0", "guest", "stray"]
    assert carriers(Snapshot()) == ()


def numbered(name: str) -> Device:
    """A PF as a scan of this namespace reads it, with the number of its netdev."""
    netdev = Netdev(name, ifindex=socket.if_nametoindex(name), admin_up=True, carrier=True)
    return pf(f"0000:3b:00.{name[-1]}", name, netdevs=(netdev,))


@pytest.mark.root
@needs_root
def test_two_pfs_that_swap_names_are_identified_by_number_on_this_machines_own_root() -> None:
    async def work(at: Follower) -> list[tuple[bool | None, bool | None]]:
        await at.until(lambda: None in at.scans)
        pfs = [numbered("pf0"), numbered("pf1")]
        at.bus.publish(SnapshotTaken(host(*pfs), settled=True))
        await at.until(lambda: at.fact("pf0") and at.fact("pf1"))
        ip("link set peer1 down")
        await at.until(lambda: at.carrier("pf1") is False)
        at.links.clear()
        swap = ("pf0 name spare", "pf1 name pf0", "spare name pf1")
        ip(*(f"link set {step}" for step in swap))
        await at.until(lambda: at.carrier("pf1") and at.carrier("pf0") is False)
        newest = ((e.links.newest(pfs[0].netdev), e.links.newest(pfs[1].netdev)) for e in at.links)
        return [(a.carrier, b.carrier) for a, b in newest if a is not None and b is not None]

    seen = following(work, opened=False, root=Path("/"))
    assert set(seen) == {(True, False)}


@pytest.mark.root
@needs_root
def test_a_change_of_an_alternative_name_causes_a_scan_of_its_function() -> None:
    async def work(at: Follower) -> list[frozenset[str] | None]:
        ip("link property add dev pf0 altname sriov1")
        await at.until(lambda: len(at.scans) == 1)
        ip("link property del dev pf0 altname sriov1")
        await at.until(lambda: len(at.scans) == 2)
        return at.scans[-2:]

    assert following(work, PF0, PF1) == [OF_PF0] * 2


@pytest.mark.root
@needs_root
def test_any_change_of_ipoib_is_a_reason_to_scan_since_only_a_scan_reads_the_port_below() -> None:
    ipoib = pf("0000:3b:00.0", "pf0", netdevs=(Netdev("pf0", link_type="infiniband"),))

    async def work(at: Follower) -> frozenset[str] | None:
        ip("link set peer0 down")
        await at.until(lambda: OF_PF0 in at.scans)
        return at.scans[-1]

    assert following(work, ipoib) == frozenset({ipoib.id})


@pytest.mark.root
@needs_root
def test_a_pf_that_was_renamed_before_its_first_report_causes_a_scan() -> None:
    async def work(at: Follower) -> frozenset[str] | None:
        await at.until(lambda: None in at.scans)
        netdev = Netdev("old0", ifindex=socket.if_nametoindex("pf0"), admin_up=True, carrier=True)
        at.bus.publish(
            SnapshotTaken(host(pf("0000:3b:00.0", "old0", netdevs=(netdev,))), settled=True)
        )
        ip("link set peer0 down")
        await at.until(lambda: OF_PF0 in at.scans)
        return at.scans[-1]

    assert following(work, opened=False, root=Path("/")) == frozenset({"0000:3b:00.0"})

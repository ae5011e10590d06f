from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from agent.host.route_events import AddressChange, Change, DefaultRouteEvents, LinkChange
from tests.support.inside import in_own_network, ip, needs_root

pytestmark = [pytest.mark.root, needs_root]

T = TypeVar("T")
PATIENCE_S = 20.0


def on_routes(work: Callable[[DefaultRouteEvents], Coroutine[object, object, T]]) -> T:
    """Run ``work`` in a namespace with two cables that have addresses."""

    async def main() -> T:
        ip(
            "link add eno1 type veth peer name peer1",
            "link add eno2 type veth peer name peer2",
            *(f"link set {name} up" for name in ("eno1", "eno2", "peer1", "peer2")),
            "addr add 192.0.2.1/24 dev eno1",
            "addr add 198.51.100.1/24 dev eno2",
        )
        async with asyncio.timeout(PATIENCE_S), DefaultRouteEvents() as routes:
            return await work(routes)

    return in_own_network(lambda: asyncio.run(main()))


def is_quiet(routes: DefaultRouteEvents) -> bool:
    """Whether nothing waits to be read."""
    try:
        routes._socket.recv(1 << 16)
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize(
    "command",
    [
        "route add default via 192.0.2.9",
        "route add 0.0.0.0/0 dev eno1",
        "route add default metric 200 dev eno2",
        "route add default nexthop via 192.0.2.9 nexthop via 198.51.100.9",
        "route add default dev eno1 table 100",
        "route add ::/0 dev eno1",
        "route add unreachable default metric 9999",
    ],
)
def test_every_form_of_a_default_route_is_noticed(command: str) -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        waiting = asyncio.create_task(routes.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        ip(command)
        await waiting
        return is_quiet(routes)

    assert on_routes(work)


@pytest.mark.parametrize(
    "rule", ["rule add from 192.0.2.1 lookup 100", "rule add to 10.0.0.0/8 lookup 100"]
)
@pytest.mark.parametrize("family", ["-4", "-6"])
def test_a_change_of_a_rule_is_noticed(rule: str, family: str) -> None:
    if family == "-6":
        rule = rule.replace("192.0.2.1", "fd00::1").replace("10.0.0.0/8", "fd00::/16")

    async def work(routes: DefaultRouteEvents) -> Change:
        run = ["ip", family, *rule.split()]
        subprocess.run(run, check=True)  # noqa: ASYNC221 - nothing else is to run meanwhile
        return await routes.changed()

    assert on_routes(work) is None


def test_the_removal_of_a_default_route_is_noticed_too() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip("route add default dev eno1")
        await routes.changed()
        ip("route del default")
        await routes.changed()
        return is_quiet(routes)

    assert on_routes(work)


def test_messages_on_other_routes_are_dropped_by_the_kernel() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip(*(f"route add 10.{n}.0.0/16 dev eno1" for n in range(200)))
        ip("route add 0.0.0.0/1 dev eno1", "route add 2000::/3 dev eno1")
        return is_quiet(routes)

    assert on_routes(work)


@pytest.mark.parametrize("command", ["addr del 192.0.2.1/24 dev eno1", "link set eno1 down"])
def test_an_interface_whose_default_route_ends_without_an_event_is_named(command: str) -> None:
    """The kernel says nothing of the IPv4 routes that go with an address or an interface."""

    async def work(routes: DefaultRouteEvents) -> tuple[int, int]:
        ip("route add default via 192.0.2.9")
        assert await routes.changed() is None
        ip(command)
        named = await routes.changed()
        while named is None:  # IPv6 routes of length 0, where the kernel tells of them
            named = await routes.changed()
        return named.ifindex, socket.if_nametoindex("eno1")

    named, ifindex = on_routes(work)
    assert named == ifindex


def test_other_messages_on_links_and_addresses_are_dropped_by_the_kernel() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip(
            "link set eno1 mtu 1400",
            "link set eno1 alias uplink",
            "addr add 169.254.7.7/16 dev eno1 scope link",
            "link set peer2 name peer3",
        )
        return is_quiet(routes)

    assert on_routes(work)


@pytest.mark.parametrize("address", ["192.0.2.2/24", "2001:db8::1/64"])
def test_an_address_that_is_added_or_removed_names_its_interface(address: str) -> None:
    async def work(routes: DefaultRouteEvents) -> list[Change]:
        ip(f"addr add {address} dev eno1 nodad")
        came = await routes.changed()
        ip(f"addr del {address} dev eno1")
        return [came, await routes.changed()]

    ifindex, changes = on_routes(lambda routes: named("eno1", work(routes)))
    assert changes == [AddressChange(ifindex)] * 2


async def named(
    name: str, work: Coroutine[object, object, list[Change]]
) -> tuple[int, list[Change]]:
    """The ifindex of an interface in the namespace, and what ``work`` comes to."""
    changes = await work
    return socket.if_nametoindex(name), changes


async def change_of(name: str, routes: DefaultRouteEvents, *, is_port: bool) -> LinkChange:
    """The next change that tells of an interface as a port, or as none."""
    while True:
        change = await routes.changed()
        if not isinstance(change, LinkChange) or change.name != name:
            continue
        if (change.master is not None) is is_port:
            return change


def test_a_port_that_joins_a_bridge_is_named_with_its_master() -> None:
    async def work(routes: DefaultRouteEvents) -> tuple[LinkChange, int, int]:
        ip("link add br0 type bridge", "link set eno1 master br0")
        change = await change_of("eno1", routes, is_port=True)
        return change, socket.if_nametoindex("eno1"), socket.if_nametoindex("br0")

    change, port, bridge = on_routes(work)
    assert (change.ifindex, change.master) == (port, bridge)


def test_a_port_that_leaves_its_bridge_is_named_if_it_is_watched() -> None:
    async def work(routes: DefaultRouteEvents) -> LinkChange:
        ip("link add br0 type bridge", "link set eno1 master br0")
        await change_of("eno1", routes, is_port=True)
        routes.watch((), [socket.if_nametoindex("eno1")])
        ip("link set eno1 nomaster")
        return await change_of("eno1", routes, is_port=False)

    assert not on_routes(work).is_down


def test_routes_of_a_watched_interface_reach_the_process_and_no_others() -> None:
    async def work(routes: DefaultRouteEvents) -> tuple[Change, bool]:
        routes.watch([socket.if_nametoindex("eno2")], ())
        ip("route add 10.1.0.0/16 dev eno1", "route add 10.2.0.0/16 dev eno2")
        return await routes.changed(), is_quiet(routes)

    assert on_routes(work) == (None, True)


@pytest.mark.parametrize("watched", [range(1, 90), range(1, 5000)])
def test_many_interfaces_can_be_watched(watched: range) -> None:
    async def work(routes: DefaultRouteEvents) -> Change:
        routes.watch(watched, watched)
        ip("route add 10.2.0.0/16 dev eno2")
        return await routes.changed()

    assert on_routes(work) is None


def test_lost_messages_count_as_a_change_and_so_does_the_end_of_the_loss() -> None:
    async def work(routes: DefaultRouteEvents) -> tuple[Change, bool]:
        routes._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        ip(*("route add default dev eno1", "route del default") * 100)
        assert await routes.changed() is None
        while not is_quiet(routes):
            pass
        afterwards = await routes.changed()
        ip("route add default dev eno1")
        await routes.changed()
        return afterwards, is_quiet(routes)

    assert on_routes(work) == (None, True)


def test_a_socket_that_is_closed_meanwhile_is_an_error() -> None:
    async def work(routes: DefaultRouteEvents) -> None:
        routes._socket.close()
        with pytest.raises((OSError, ValueError)):
            await routes.changed()

    on_routes(work)

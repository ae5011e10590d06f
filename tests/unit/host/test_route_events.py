from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from agent.host.route_events import DefaultRouteEvents
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


def test_a_default_route_that_goes_is_noticed_too() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip("route add default dev eno1")
        await routes.changed()
        ip("route del default")
        await routes.changed()
        return is_quiet(routes)

    assert on_routes(work)


def test_other_routes_never_reach_the_process() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip(*(f"route add 10.{n}.0.0/16 dev eno1" for n in range(200)))
        ip("route add 0.0.0.0/1 dev eno1", "route add 2000::/3 dev eno1")
        return is_quiet(routes)

    assert on_routes(work)


@pytest.mark.parametrize("command", ["addr del 192.0.2.1/24 dev eno1", "link set eno1 down"])
def test_an_interface_whose_default_route_ends_in_silence_is_named(command: str) -> None:
    """The kernel says nothing of the IPv4 routes that go with an address or an interface."""

    async def work(routes: DefaultRouteEvents) -> tuple[int | None, int]:
        ip("route add default via 192.0.2.9")
        assert await routes.changed() is None
        ip(command)
        named = await routes.changed()
        while named is None:  # IPv6 routes of length 0, where the kernel tells of them
            named = await routes.changed()
        return named, socket.if_nametoindex("eno1")

    named, ifindex = on_routes(work)
    assert named == ifindex


def test_other_news_of_links_and_addresses_never_reach_the_process() -> None:
    async def work(routes: DefaultRouteEvents) -> bool:
        ip(
            "link set eno1 mtu 1400",
            "link set eno1 alias uplink",
            "addr add 192.0.2.2/24 dev eno1",
            "link set eno2 name eno3",
        )
        return is_quiet(routes)

    assert on_routes(work)


def test_lost_messages_count_as_a_change_and_so_does_the_end_of_the_loss() -> None:
    async def work(routes: DefaultRouteEvents) -> tuple[int | None, bool]:
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


def test_a_socket_that_was_closed_under_it_is_an_error() -> None:
    async def work(routes: DefaultRouteEvents) -> None:
        routes._socket.close()
        with pytest.raises((OSError, ValueError)):
            await routes.changed()

    on_routes(work)

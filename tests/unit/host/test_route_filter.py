"""The filter in the kernel: messages are sent through a socket that has it attached."""

from __future__ import annotations

import socket
import struct

import pytest

from agent.host.netlink import attach_filter
from agent.host.route_filter import (
    RTM_DELADDR,
    RTM_NEWADDR,
    RTM_NEWLINK,
    WATCHED_AT_MOST,
    Interfaces,
    program,
)

RTM_DELLINK, RTM_NEWROUTE, RTM_DELROUTE, RTM_NEWRULE, RTM_DELRULE = 17, 24, 25, 32, 33
V4, V6 = socket.AF_INET, socket.AF_INET6
GLOBAL, HOST_LINK = 0, 253
UP, RUNNING = 0x1, 0x40
MASTER, OIF = 10, 4


def message(kind: int, body: bytes, *attributes: tuple[int, int]) -> bytes:
    packed = b"".join(struct.pack("=HHI", 8, number, value) for number, value in attributes)
    return struct.pack("=IHHII", 16 + len(body) + len(packed), kind, 0, 1, 0) + body + packed


def address(kind: int, family: int, scope: int) -> bytes:
    return message(kind, struct.pack("=BBBBI", family, 64, 0, scope, 3))


def route(kind: int, prefix: int, *attributes: tuple[int, int]) -> bytes:
    return message(kind, struct.pack("=BBBBBBBBI", V4, prefix, 0, 0, 254, 4, 0, 1, 0), *attributes)


def link(kind: int, index: int, flags: int, change: int, *attributes: tuple[int, int]) -> bytes:
    return message(kind, struct.pack("=BxHiII", 0, 1, index, flags, change), *attributes)


def passes(data: bytes, addressed: Interfaces = (7,), stacked: Interfaces = (9,)) -> bool:
    """Whether the kernel delivers a message to a socket with the filter."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        attach_filter(receiver, program(addressed, stacked))
        receiver.setblocking(False)
        try:
            sender.send(data)
            return receiver.recv(4096) == data
        except (PermissionError, BlockingIOError):  # dropped by the filter
            return False


KEPT = {
    "a global address comes": address(RTM_NEWADDR, V4, GLOBAL),
    "a global IPv6 address comes": address(RTM_NEWADDR, V6, GLOBAL),
    "a global IPv6 address goes": address(RTM_DELADDR, V6, GLOBAL),
    "any IPv4 address goes": address(RTM_DELADDR, V4, HOST_LINK),
    "a rule comes": message(RTM_NEWRULE, bytes(12)),
    "a rule goes": message(RTM_DELRULE, bytes(12)),
    "a default route comes": route(RTM_NEWROUTE, 0),
    "a default route goes": route(RTM_DELROUTE, 0, (OIF, 3)),
    "a route of an addressed interface": route(RTM_NEWROUTE, 24, (OIF, 7)),
    "the same behind other attributes": route(RTM_DELROUTE, 24, (1, 7), (OIF, 7)),
    "a stacked interface changes": link(RTM_NEWLINK, 9, UP, 0),
    "an interface is set down": link(RTM_NEWLINK, 3, RUNNING, UP),
    "an interface has a master": link(RTM_NEWLINK, 3, UP, 0, (3, 0), (MASTER, 9)),
}
DROPPED = {
    "a link-local address comes": address(RTM_NEWADDR, V4, HOST_LINK),
    "a link-local IPv6 address comes": address(RTM_NEWADDR, V6, HOST_LINK),
    "a link-local IPv6 address goes": address(RTM_DELADDR, V6, HOST_LINK),
    "a route of another interface": route(RTM_NEWROUTE, 24, (OIF, 8)),
    "a route without an interface": route(RTM_NEWROUTE, 24, (1, 7)),
    "a plain change of an interface": link(RTM_NEWLINK, 3, UP | RUNNING, RUNNING),
    "an interface is set up": link(RTM_NEWLINK, 3, UP, UP),
    "an interface goes": link(RTM_DELLINK, 9, 0, 0),
    "a message of another type": message(18, bytes(20)),
}


@pytest.mark.parametrize("name", KEPT)
def test_messages_that_may_change_the_hosts_use_of_an_interface_are_delivered(name: str) -> None:
    assert passes(KEPT[name])


@pytest.mark.parametrize("name", DROPPED)
def test_everything_else_is_dropped_by_the_kernel(name: str) -> None:
    assert not passes(DROPPED[name])


def test_without_interfaces_to_watch_only_default_routes_and_masters_count() -> None:
    assert not passes(KEPT["a route of an addressed interface"], (), ())
    assert not passes(KEPT["a stacked interface changes"], (), ())
    assert passes(KEPT["a default route comes"], (), ())
    assert passes(KEPT["an interface has a master"], (), ())


@pytest.mark.parametrize(
    "watched", [None, range(20, 20 + WATCHED_AT_MOST + 1)], ids=["all", "many"]
)
def test_with_too_many_interfaces_to_list_all_messages_are_accepted(watched: Interfaces) -> None:
    assert passes(DROPPED["a route of another interface"], watched, watched)
    assert passes(DROPPED["a plain change of an interface"], watched, watched)
    assert not passes(DROPPED["a route without an interface"], watched, watched)


def test_as_many_interfaces_as_the_limit_are_distinguished_from_others() -> None:
    watched = range(20, 20 + WATCHED_AT_MOST)
    assert passes(route(RTM_NEWROUTE, 24, (OIF, 20 + WATCHED_AT_MOST - 1)), watched, watched)
    assert not passes(route(RTM_NEWROUTE, 24, (OIF, 7)), watched, watched)

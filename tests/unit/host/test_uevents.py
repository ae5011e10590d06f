"""Kernel uevents on a real socket, in network namespaces of their own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import TypeVar

import pytest

from agent.host.link_socket import Netlink, open_netlink
from agent.host.uevents import Overrun, Uevent, uevent
from tests.support.inside import in_own_network, ip, needs_root
from tests.support.netns import NETLINK_KOBJECT_UEVENT, broadcast_uevent

T = TypeVar("T")
PATIENCE_S = 20.0
MANY = 5000
"""Far more than the smallest receive buffer holds."""


def on_uevents(work: Callable[[Netlink], Coroutine[object, object, T]]) -> T:
    """Run ``work`` with the open sockets in a namespace of their own."""

    async def main() -> T:
        async with asyncio.timeout(PATIENCE_S), await open_netlink() as netlink:
            return await work(netlink)

    return in_own_network(lambda: asyncio.run(main()))


def bare(netlink: Netlink) -> socket.socket:
    """The socket itself."""
    assert netlink._uevents is not None
    return netlink._uevents


def kernel_tells(*names: str) -> None:
    """Let the kernel broadcast one removal for each function."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT) as source:
        for name in names:
            broadcast_uevent(source, "remove", f"/devices/pci0000:00/{name}", "pci")


def rename(before: bytes, after: bytes) -> None:
    """Give an interface a name of any bytes."""
    subprocess.run([b"ip", b"link", b"set", before, b"name", after], check=True)


async def until_told_of(
    name: str, events: AsyncGenerator[Uevent | Overrun, None]
) -> list[Uevent | Overrun]:
    """What came up to the event of one function."""
    found: list[Uevent | Overrun] = []
    async for event in events:
        found.append(event)
        if isinstance(event, Uevent) and event.devpath.endswith(name):
            return found
    raise AssertionError("the events ended")


@pytest.mark.root
@needs_root
def test_lost_events_are_reported_as_an_overrun_and_the_socket_works_on() -> None:
    async def work(netlink: Netlink) -> tuple[Uevent | Overrun, list[Uevent | Overrun]]:
        bare(netlink).setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        kernel_tells(*["0000:00:01.0"] * MANY)
        async with aclosing(netlink.uevents()) as events:
            first = await anext(events)
            while not netlink.is_drained():
                await anext(events)
            kernel_tells("0000:00:02.0")
            return first, await until_told_of("0000:00:02.0", events)

    first, after = on_uevents(work)
    assert first == Overrun()
    assert after == [Uevent("remove", "/devices/pci0000:00/0000:00:02.0", "pci")]


@pytest.mark.root
@needs_root
def test_only_messages_of_the_kernel_are_accepted() -> None:
    async def work(netlink: Netlink) -> list[Uevent | Overrun]:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT) as stranger:
            stranger.sendto(b"x", bare(netlink).getsockname())
            forged = b"remove@/devices/pci0000:00/0000:00:01.0\0ACTION=remove\0"
            stranger.sendto(forged, bare(netlink).getsockname())
        kernel_tells("0000:00:02.0")
        async with aclosing(netlink.uevents()) as events:
            return await until_told_of("0000:00:02.0", events)

    assert len(on_uevents(work)) == 1


@pytest.mark.root
@needs_root
def test_a_full_queue_does_not_block_other_tasks() -> None:
    async def work(netlink: Netlink) -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        kernel_tells(*["0000:00:01.0"] * MANY, "0000:00:02.0")
        counting = asyncio.create_task(others())
        async with aclosing(netlink.uevents()) as events:
            await until_told_of("0000:00:02.0", events)
        counting.cancel()
        return turns

    assert on_uevents(work) > MANY // 100


@pytest.mark.root
@needs_root
def test_a_name_that_is_not_text_is_shown_as_for_files() -> None:
    name = b"x\xff\xfey"

    async def work(netlink: Netlink) -> list[Uevent | Overrun]:
        ip("link add pf0 type veth peer name peer0")
        rename(b"pf0", name)
        async with aclosing(netlink.uevents()) as events:
            return await until_told_of(os.fsdecode(name), events)

    last = on_uevents(work)[-1]
    assert isinstance(last, Uevent)
    assert (last.action, last.interface) == ("move", os.fsdecode(name))


def test_bytes_that_are_not_an_event_name_nothing() -> None:
    assert uevent(b"\x1c\0\0\0\x02\0") == Uevent("", "", "")
    assert uevent(b"") == Uevent("", "", "")

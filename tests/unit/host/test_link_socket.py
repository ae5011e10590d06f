"""The adapter to pyroute2, on real sockets in network namespaces of their own."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from agent.host.link_socket import Netlink, open_netlink
from agent.host.netlink import attribute, request
from agent.host.rtnl_link import link_fact
from agent.host.uevents import Overrun, Uevent
from agent.model.link import LinkFact, VfLinkPolicy
from tests.support.inside import in_own_network, ip, needs_root
from tests.support.log_lines import LogLines
from tests.support.netns import NetNamespace

T = TypeVar("T")
PATIENCE_S = 20.0
AUTO, ENABLE, DISABLE = POLICIES = tuple(VfLinkPolicy)
_NESTED = 0x8000
_RTM_GETLINK = 18


def on_netlink(work: Callable[[Netlink], Coroutine[object, object, T]]) -> T:
    """Run ``work`` with the open sockets in a namespace with a veth pair, ``pf0`` and ``peer0``."""

    async def main() -> T:
        ip("link add pf0 type veth peer name peer0")
        async with asyncio.timeout(PATIENCE_S), await open_netlink() as netlink:
            return await work(netlink)

    return in_own_network(lambda: asyncio.run(main()))


async def until(
    messages: AsyncIterator[LinkFact | Overrun], last: Callable[[LinkFact], object]
) -> list[LinkFact]:
    """The link facts up to the first that fits."""
    found: list[LinkFact] = []
    async for message in messages:
        assert isinstance(message, LinkFact)
        found.append(message)
        if last(message):
            return found
    raise AssertionError("the messages ended")


def states(facts: list[LinkFact], name: str) -> list[tuple[bool, bool | None]]:
    """(administratively up, carrier) of one interface, repeats left out."""
    found: list[tuple[bool, bool | None]] = []
    for fact in facts:
        if fact.name == name and (not found or found[-1] != (fact.admin_up, fact.carrier)):
            found.append((fact.admin_up, fact.carrier))
    return found


@pytest.mark.root
@needs_root
def test_changes_of_a_cable_are_reported_in_order() -> None:
    async def work(netlink: Netlink) -> list[LinkFact]:
        async with aclosing(netlink.links()) as messages:
            ip("link set pf0 up", "link set peer0 up")
            facts = await until(messages, lambda f: f.name == "pf0" and f.operstate == "up")
            ip("link set peer0 down")
            facts += await until(messages, lambda f: f.name == "pf0" and not f.carrier)
            ip("link set pf0 down")
            return facts + await until(messages, lambda f: f.name == "pf0" and not f.admin_up)

    facts = on_netlink(work)
    assert states(facts, "pf0") == [(True, False), (True, True), (True, False), (False, False)]
    assert {f.vf_policies for f in facts} == {None}
    assert not any(f.gone for f in facts)


@pytest.mark.root
@needs_root
def test_a_rename_keeps_the_number() -> None:
    async def work(netlink: Netlink) -> tuple[LinkFact | None, LinkFact]:
        before = await netlink.ask("pf0")
        async with aclosing(netlink.links()) as messages:
            ip("link set pf0 name eno1")
            facts = await until(messages, lambda f: f.name == "eno1")
        return before, facts[-1]

    before, after = on_netlink(work)
    assert before is not None
    assert (before.ifindex, before.name, after.name) == (after.ifindex, "pf0", "eno1")


@pytest.mark.root
@needs_root
def test_an_interface_that_moves_to_another_namespace_is_gone() -> None:
    async def work(netlink: Netlink) -> tuple[LinkFact, LinkFact | None]:
        with NetNamespace() as pod:
            async with aclosing(netlink.links()) as messages:
                ip(f"link set pf0 netns {pod.pid}")
                facts = await until(messages, lambda f: f.gone)
            return facts[-1], await netlink.ask("pf0")

    fact, asked = on_netlink(work)
    assert (fact.name, fact.gone, asked) == ("pf0", True, None)


@pytest.mark.root
@needs_root
def test_a_port_that_leaves_a_bridge_is_not_gone() -> None:
    async def work(netlink: Netlink) -> list[LinkFact]:
        async with aclosing(netlink.links()) as messages:
            ip("link add br0 type bridge", "link set pf0 master br0")
            facts = await until(messages, lambda f: f.name == "pf0" and f.master)
            ip("link set pf0 nomaster")
            facts += await until(messages, lambda f: f.name == "pf0" and not f.master)
            ip("link set pf0 up")
            return facts + await until(messages, lambda f: f.name == "pf0" and f.admin_up)

    facts = [f for f in on_netlink(work) if f.name == "pf0"]
    assert not any(f.gone for f in facts)
    assert facts[-1].master is None


@pytest.mark.root
@needs_root
def test_events_of_interfaces_that_no_device_uses_are_dropped() -> None:
    async def work(netlink: Netlink) -> list[LinkFact]:
        wanted = await netlink.ask("pf0")
        assert wanted is not None
        netlink.only(frozenset({wanted.ifindex}))
        async with aclosing(netlink.links()) as messages:
            ip(*("link set peer0 up", "link set peer0 down") * 20, "link set pf0 up")
            facts = await until(messages, lambda f: f.name == "pf0" and f.admin_up)
            netlink.only(None)
            ip("link set peer0 up")
            return facts + await until(messages, lambda f: f.name == "peer0")

    names = [f.name for f in on_netlink(work)]
    assert names == ["pf0"] * (len(names) - 1) + ["peer0"]


@pytest.mark.root
@needs_root
def test_lost_events_are_reported_as_an_overrun_and_the_socket_works_on() -> None:
    async def work(netlink: Netlink) -> tuple[bool, LinkFact]:
        netlink._events.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        async with aclosing(netlink.links()) as messages:
            ip(*("link set pf0 up", "link set pf0 down") * 50)
            lost = isinstance(await anext(messages), Overrun)
            await until(messages, lambda f: f.name == "pf0")  # what fitted into the buffer
            ip("link set pf0 name eno1")
            return lost, (await until(messages, lambda f: f.name == "eno1"))[-1]

    lost, fact = on_netlink(work)
    assert lost
    assert fact.name == "eno1"


@pytest.mark.root
@needs_root
def test_requests_leave_nothing_behind_once_they_are_answered() -> None:
    async def work(netlink: Netlink) -> int:
        for _ in range(3):
            await netlink.ask("pf0")
        left: int = netlink._questions.msg_queue.root.qsize()
        return left

    assert on_netlink(work) == 0


@pytest.mark.root
@needs_root
def test_a_request_is_answered_with_the_present_state_and_refused_for_other_users(
    log_lines: LogLines,
) -> None:
    async def work(netlink: Netlink) -> list[LinkFact | None]:
        ip("link set pf0 up", "link set peer0 up")
        names = ("pf0", "nope", "x" * 40, "", "x\udcff")
        return [await netlink.ask(name) for name in names]

    known, *strangers = on_netlink(work)
    assert known is not None
    assert (known.name, known.admin_up, known.carrier, known.gone) == ("pf0", True, True, False)
    assert strangers == [None] * 4
    long, odd = log_lines.fields("netlink.unanswered")
    assert long["interface"] == "x" * 40
    assert "out of range" in long["error"]
    assert "surrogates" in odd["error"]


@pytest.mark.root
@needs_root
def test_the_kernel_grants_a_large_buffer() -> None:
    async def work(netlink: Netlink) -> int:
        return netlink.receive_buffer_bytes

    assert on_netlink(work) >= 8 << 20


@pytest.mark.root
@needs_root
def test_kernel_uevents_have_action_path_and_subsystem() -> None:
    async def work(netlink: Netlink) -> list[Uevent]:
        found: list[Uevent] = []
        async with aclosing(netlink.uevents()) as events:
            ip("link add dev0 type veth peer name dev1", "link delete dev0")
            async for event in events:
                assert isinstance(event, Uevent)
                found.append(event)
                if event.action == "remove" and event.interface == "dev0":
                    return found
        raise AssertionError("the events ended")

    events = [e for e in on_netlink(work) if e.interface == "dev0"]
    assert [(e.action, e.devpath, e.subsystem) for e in events] == [
        ("add", "/devices/virtual/net/dev0", "net"),
        ("remove", "/devices/virtual/net/dev0", "net"),
    ]


@pytest.mark.root
@needs_root
def test_closing_gives_every_descriptor_back() -> None:
    def work() -> tuple[int, int]:
        ip("link add pf0 type veth peer name peer0")

        async def once() -> None:
            async with await open_netlink() as netlink:
                await netlink.ask("pf0")

        asyncio.run(once())
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            asyncio.run(once())
        return before, len(list(Path("/proc/self/fd").iterdir()))

    before, after = in_own_network(work)
    assert before == after


def test_an_event_on_something_else_than_an_interface_names_none() -> None:
    assert Uevent("add", "/devices/pci0000:00/0000:3b:02.0", "pci").interface is None
    assert Uevent("move", "/devices/virtual/net/eno1", "net").interface == "eno1"


def vf_entry(index: int, policy: int | None) -> bytes:
    """One IFLA_VF_INFO: number and address, then the link state where the driver tells it."""
    content = attribute(1, struct.pack("=I", index) + bytes(32))
    if policy is not None:
        content += attribute(5, struct.pack("=II", index, policy))
    return attribute(1 | _NESTED, content)


def by_the_library(message: bytes) -> LinkFact:
    """What pyroute2's own decoder makes of a message."""
    (read,) = MarshalRtnl().parse(message)
    vfs, carrier = read.get("vfinfo_list"), read.get("carrier")
    told = [v.get_attr("IFLA_VF_LINK_STATE") for v in vfs.get_attrs("IFLA_VF_INFO")] if vfs else []
    return LinkFact(
        ifindex=read["index"],
        name=read.get("ifname"),
        admin_up=bool(read["flags"] & 1),
        carrier=None if carrier is None else bool(carrier),
        operstate=read.get("operstate").lower(),
        master=read.get("master"),
        vf_policies={t["vf"]: POLICIES[t["link_state"]] for t in told if t} if vfs else None,
    )


def answer(*vfs: bytes, with_list: bool = True) -> bytes:
    """An RTM_NEWLINK message with these VFs."""
    attributes = attribute(3, b"pf0\0") + attribute(16, b"\6") + attribute(33, b"\1\0\0\0")
    if with_list:
        attributes += attribute(22 | _NESTED, b"".join(vfs))
    body = struct.pack("=BxHiII", 0, 1, 7, 1, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), 16, 0, 1, 0) + body


@pytest.mark.root
@needs_root
def test_messages_of_the_kernel_are_decoded_as_by_pyroute2() -> None:
    def work() -> list[bytes]:
        ip("link add pf0 type veth peer name peer0", "link set pf0 up")
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
            for name in (b"lo", b"pf0", b"peer0"):
                question = bytes(16) + attribute(3, name + b"\0")
                kernel.send(request(_RTM_GETLINK, question, dump=False))
            return [kernel.recv(1 << 16) for _ in range(3)]

    answers = in_own_network(work)
    assert [link_fact(answer) for answer in answers] == [by_the_library(a) for a in answers]
    assert [link_fact(answer).admin_up for answer in answers] == [False, True, False]


def test_the_link_policies_of_vfs_are_read_from_an_answer() -> None:
    message = answer(*(vf_entry(i, i % 3) for i in range(6)))
    assert link_fact(message) == by_the_library(message)
    assert link_fact(message) == LinkFact(
        7,
        "pf0",
        admin_up=True,
        carrier=True,
        operstate="up",
        vf_policies={0: AUTO, 1: ENABLE, 2: DISABLE, 3: AUTO, 4: ENABLE, 5: DISABLE},
    )


def test_256_vfs_fit_into_one_answer() -> None:
    fact = link_fact(answer(*(vf_entry(i, 2) for i in range(256))))
    assert fact.vf_policies == dict.fromkeys(range(256), DISABLE)


def test_a_vf_without_a_known_link_policy_is_left_out() -> None:
    message = answer(vf_entry(0, None), vf_entry(1, 9), vf_entry(2, 1))
    assert link_fact(message).vf_policies == {2: ENABLE}


def test_a_message_without_a_list_of_vfs_has_no_policies() -> None:
    assert link_fact(answer(with_list=False)).vf_policies is None
    assert link_fact(answer()).vf_policies == {}


class RefusingSocket:
    """A socket of questions on which the kernel answers with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def nlm_request(self, *_: object) -> Awaitable[object]:
        raise self.error


class SocketGoneError(ConnectionError):
    """A socket fault that has a ``code`` as well."""

    code = errno.ECONNRESET


class KernelAnswerError(Exception):
    """As pyroute2 makes it of an error answer: no OSError, the errno in ``code``."""

    code = errno.EMSGSIZE


async def test_an_error_of_the_kernel_is_logged_once_and_not_a_crash(log_lines: LogLines) -> None:
    netlink = Netlink(None, RefusingSocket(KernelAnswerError("message too long")), str)
    for _ in range(5):
        assert await netlink.ask("pf0") is None
    assert log_lines.fields("netlink.unanswered") == [
        {"interface": "pf0", "error": "message too long"}
    ]


async def test_an_error_of_the_socket_is_raised() -> None:
    netlink = Netlink(None, RefusingSocket(OSError(errno.ENOBUFS, "full")), str)
    with pytest.raises(OSError, match="full"):
        await netlink.ask("pf0")
    with pytest.raises(SocketGoneError):
        await Netlink(None, RefusingSocket(SocketGoneError()), str).ask("pf0")
    with pytest.raises(ZeroDivisionError):
        await Netlink(None, RefusingSocket(ZeroDivisionError()), str).ask("pf0")

"""The one adapter to pyroute2: link events, kernel uevents and questions about interfaces.

Importing all of pyroute2 costs over 100 ms and 10 MiB, so :func:`open_netlink` imports the parts
that are needed, a tenth of it, in a worker thread, once the first lists are out. Messages become
our own records here; nothing of pyroute2 leaves this module.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
from collections.abc import AsyncGenerator
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import TracebackType
from typing import Any, Self

import attrs

from agent import logs
from agent.model.link import LinkFact, VfLinkPolicy

RECEIVE_BUFFER_BYTES = 8 << 20
_SO_RCVBUFFORCE = 33  # uapi asm-generic/socket.h; needs CAP_NET_ADMIN
_RTNLGRP_LINK_MASK = 1  # uapi linux/rtnetlink.h: RTMGRP_LINK
_UEVENT_KERNEL_GROUP = 1  # the kernel's own events, not udev's
_RTEXT_FILTER_VF = 1  # uapi linux/rtnetlink.h
_RTEXT_FILTER_SKIP_STATS = 8  # with its statistics the list of 256 VFs passes what netlink can nest
_QUESTION = _RTEXT_FILTER_VF | _RTEXT_FILTER_SKIP_STATS
_IFF_UP = 1
_LINK_HEADER = struct.Struct("=4xH10xBxHi")  # type of nlmsghdr; family, type, index of ifinfomsg
_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK = 16, 17, 18
_LINK_MESSAGES = (_RTM_NEWLINK, _RTM_DELLINK)
_NLM_F_REQUEST_ACK = 5  # uapi linux/netlink.h
_VF_POLICIES = tuple(VfLinkPolicy)  # IFLA_VF_LINK_STATE_AUTO, _ENABLE, _DISABLE


@attrs.frozen
class Overrun:
    """Messages were lost (ENOBUFS): whatever they would have told must be read anew."""


@attrs.frozen
class Uevent:
    """A kernel object came, went or changed."""

    action: str
    devpath: str
    subsystem: str

    @property
    def interface(self) -> str | None:
        """Name of the network interface that it is about, if it is about one."""
        return self.devpath.rpartition("/")[2] if self.subsystem == "net" else None


class Netlink:
    """The open sockets; an async context manager. Socket faults come out as OSError."""

    def __init__(self, events: Any, questions: Any, uevents: Any) -> None:
        self._events = events
        self._questions = questions
        self._uevents = uevents
        self.receive_buffer_bytes = 0
        """What the kernel granted for link events."""

    async def __aenter__(self) -> Self:
        try:
            for open_socket in (self._events, self._questions, self._uevents):
                await open_socket.setup_endpoint()
            await self._events.bind(groups=_RTNLGRP_LINK_MASK)
            await self._uevents.bind(groups=_UEVENT_KERNEL_GROUP)
        except BaseException:
            await self.close()
            raise
        for open_socket in (self._events, self._uevents):
            self.receive_buffer_bytes = _grow_buffer(open_socket.socket)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all sockets."""
        for open_socket in (self._events, self._questions, self._uevents):
            if (closing := open_socket.close()) is not None:
                await closing

    def is_drained(self) -> bool:
        """Whether no event waits to be read: from here on the kernel tells of a new overrun.

        It tells once, and then drops in silence until the queue was empty (netlink_overrun() and
        netlink_rcv_wake() in net/netlink/af_netlink.c).
        """
        return not any(_waits(s.socket) for s in (self._events, self._uevents))

    def only(self, ifindexes: frozenset[int] | None) -> None:
        """Drop events of other interfaces unread; None = let all through."""
        self._events.only = ifindexes

    async def links(self) -> AsyncGenerator[LinkFact | Overrun, None]:
        """Every link event from now on."""
        async for message in _messages(self._events):
            yield message if isinstance(message, Overrun) else link_fact(message)

    async def uevents(self) -> AsyncGenerator[Uevent | Overrun, None]:
        """Every kernel uevent from now on."""
        async for message in _messages(self._uevents):
            if isinstance(message, Overrun):
                yield message
            else:
                facts = (str(message.get(key) or "") for key in ("ACTION", "DEVPATH", "SUBSYSTEM"))
                yield Uevent(*facts)

    async def ask(self, name: str) -> LinkFact | None:
        """One interface with its VFs' policies; None = it is not in this namespace.

        None too where the kernel answers with another error, which is told once: what cannot be
        known counts as healthy.
        """
        try:
            answers = await self._questions.link(name)
        except Exception as error:
            code = getattr(error, "code", None)
            if code is None or isinstance(error, OSError):
                raise
            if code != errno.ENODEV:
                logs.emit_once("netlink.unanswered", name, interface=name, error=str(error))
            return None
        return next((link_fact(message) for message in answers), None)


def link_fact(message: Any) -> LinkFact:
    """Our record of an RTM_NEWLINK or RTM_DELLINK message."""
    carrier = message.get("carrier")
    operstate = message.get("operstate")
    return LinkFact(
        ifindex=message["index"],
        name=str(message.get("ifname") or ""),
        admin_up=bool(message["flags"] & _IFF_UP),
        carrier=None if carrier is None else bool(carrier),
        operstate=str(operstate).lower() if operstate else None,
        master=message.get("master"),
        gone=message["header"]["type"] == _RTM_DELLINK,
        vf_policies=_vf_policies(message.get("vfinfo_list")),
    )


def _vf_policies(vfinfo_list: Any) -> dict[int, VfLinkPolicy] | None:
    if vfinfo_list is None:
        return None
    states = (info.get_attr("IFLA_VF_LINK_STATE") for info in vfinfo_list.get_attrs("IFLA_VF_INFO"))
    return {
        state["vf"]: _VF_POLICIES[state["link_state"]]
        for state in states
        if state and state["link_state"] < len(_VF_POLICIES)
    }


async def _messages(source: Any) -> AsyncGenerator[Any, None]:
    """Messages of a socket without end; an overrun is told in its place."""
    while True:
        try:
            async for message in source.get():
                yield message
        except OSError as error:
            if _errno(error) != errno.ENOBUFS:
                raise
            yield Overrun()


def _waits(raw: socket.socket) -> bool:
    try:
        raw.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:  # the next overrun; told here, the reader never hears of it
        return True
    return True


def _errno(error: OSError) -> int | None:
    """The errno of a socket's OSError, or of pyroute2's error, which keeps it as ``code``."""
    code: int | None = getattr(error, "code", None) or error.errno
    return code


def _grow_buffer(raw: socket.socket) -> int:
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        try:
            raw.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)
            break
        except PermissionError:
            continue
    return raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def is_wanted(data: bytes, ifindexes: frozenset[int] | None) -> bool:
    """Whether a link message is worth decoding: of a wanted interface, and not a bridge's own.

    A port that leaves a bridge is told as RTM_DELLINK of family AF_BRIDGE; it is still there.
    Anything but a link message passes: pyroute2 tells of lost messages in the same queue.
    """
    if len(data) < _LINK_HEADER.size:
        return True
    kind, family, _, ifindex = _LINK_HEADER.unpack_from(data)
    if kind not in _LINK_MESSAGES:
        return True
    return family == socket.AF_UNSPEC and (ifindexes is None or ifindex in ifindexes)


async def open_netlink() -> Netlink:
    """Import pyroute2 off the loop and make the sockets; enter the result to open them."""
    return await asyncio.to_thread(_import_pyroute2)


def _import_pyroute2() -> Netlink:
    """The sockets, of the three modules of pyroute2 that they take."""
    _pass_by_the_front_door()
    sockets: Any = import_module("pyroute2.netlink.nlsocket")
    messages: Any = import_module("pyroute2.netlink.rtnl.ifinfmsg")
    uevent: Any = import_module("pyroute2.netlink.uevent")
    link_message = messages.ifinfmsg

    class LinkMarshal(sockets.Marshal):  # type: ignore[misc] # imported late
        msg_map = dict.fromkeys(_LINK_MESSAGES, link_message)

    class LinkSocket(sockets.AsyncNetlinkSocket):  # type: ignore[misc] # imported late
        marshal_class = LinkMarshal
        only: frozenset[int] | None = None

        def enqueue(self, data: bytes, addr: object) -> object:
            return super().enqueue(data, addr) if is_wanted(data, self.only) else None

        async def link(self, name: str) -> list[Any]:
            question = link_message()
            question["attrs"] = [("IFLA_IFNAME", name), ("IFLA_EXT_MASK", _QUESTION)]
            answers = await self.nlm_request(question, _RTM_GETLINK, _NLM_F_REQUEST_ACK)
            return [message async for message in answers]

    links, questions = (LinkSocket(family=socket.NETLINK_ROUTE) for _ in range(2))
    return Netlink(links, questions, uevent.AsyncUeventSocket())


def _pass_by_the_front_door() -> None:
    """Let parts of pyroute2 be imported without its ``__init__``, which imports all there is.

    The package is there as a name with a path, as long as nobody imported it whole before.
    """
    if "pyroute2" not in sys.modules and (spec := find_spec("pyroute2")) is not None:
        sys.modules["pyroute2"] = module_from_spec(spec)

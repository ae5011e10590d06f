"""Events of links and kernel objects, and questions about interfaces: the one adapter to pyroute2.

Importing all of pyroute2 costs over 100 ms and 10 MiB, so :func:`open_netlink` imports the parts
that are needed, a tenth of it, in a worker thread, once the first lists are out. Messages become
our own records here; nothing of pyroute2 leaves this module.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import AsyncGenerator
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import TracebackType
from typing import Any, Self

from agent import blocking, logs
from agent.events.netlink import NetlinkUnanswered
from agent.host.rtnl_link import RTM_DELLINK, RTM_NEWLINK, link_fact
from agent.host.uevents import Overrun, Uevent, follow_uevents, is_drained, open_uevents
from agent.model.link import LinkFact
from agent.startup import stub_find_library

RECEIVE_BUFFER_BYTES = 8 << 20
_SO_RCVBUFFORCE = 33  # uapi asm-generic/socket.h; needs CAP_NET_ADMIN
_RTNLGRP_LINK_MASK = 1  # uapi linux/rtnetlink.h: RTMGRP_LINK
_RTEXT_FILTER_VF = 1  # uapi linux/rtnetlink.h
_RTEXT_FILTER_SKIP_STATS = 8  # with its statistics the list of 256 VFs passes what netlink can nest
_QUESTION = _RTEXT_FILTER_VF | _RTEXT_FILTER_SKIP_STATS
_LINK_HEADER = struct.Struct("=4xH10xBxHi")  # type of nlmsghdr; family, type, index of ifinfomsg
_IFINFOMSG = (  # struct ifinfomsg, as pyroute2 declares structures
    ("family", "B"),
    ("__align", "x"),
    ("ifi_type", "H"),
    ("index", "i"),
    ("flags", "I"),
    ("change", "I"),
)
_ASKED = ((3, "IFLA_IFNAME", "asciiz"), (29, "IFLA_EXT_MASK", "uint32"))
_FACT = "fact"
_RTM_GETLINK = 18
_LINK_MESSAGES = (RTM_NEWLINK, RTM_DELLINK)
_NLM_F_REQUEST = 1  # uapi linux/netlink.h; an ACK after the answer nobody would take


class Netlink:
    """The open sockets; an async context manager. Socket faults come out as OSError."""

    def __init__(self, events: Any, questions: Any) -> None:
        self._events = events
        self._questions = questions
        self._uevents: socket.socket | None = None
        self._listening: tuple[socket.socket, ...] = ()
        """The bare sockets of both kinds of events: pyroute2 denies its own after an overrun."""
        self.receive_buffer_bytes = 0
        """What the kernel granted for link events."""

    async def __aenter__(self) -> Self:
        try:
            for open_socket in (self._events, self._questions):
                await open_socket.setup_endpoint()
            await self._events.bind(groups=_RTNLGRP_LINK_MASK)
            self._uevents = open_uevents()
            self._listening = (self._events.socket, self._uevents)
        except BaseException:
            await self.close()
            raise
        for listening in self._listening:
            self.receive_buffer_bytes = _grow_buffer(listening)
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
        if self._uevents is not None:
            self._uevents.close()
        for open_socket in (self._events, self._questions):
            if (closing := open_socket.close()) is not None:
                await closing

    def is_drained(self) -> bool:
        """Whether no event waits to be read: from here on the kernel tells of a new overrun."""
        return all(map(is_drained, self._listening))

    def only(self, ifindexes: frozenset[int] | None) -> None:
        """Drop events of other interfaces unread; None = let all through."""
        self._events.only = ifindexes

    async def links(self) -> AsyncGenerator[LinkFact | Overrun, None]:
        """Every link event from now on."""
        async for message in _messages(self._events):
            yield message if isinstance(message, Overrun) else message[_FACT]

    def uevents(self) -> AsyncGenerator[Uevent | Overrun, None]:
        """Every kernel uevent from now on."""
        if self._uevents is None:
            raise OSError(errno.EBADF, "the netlink sockets are not open")
        return follow_uevents(self._uevents)

    async def ask(self, name: str) -> LinkFact | None:
        """One interface with its VFs' policies; None = it is not in this namespace.

        None too where the kernel answers with another error, or the name is no text that can be
        asked for, which is told once: what cannot be known counts as healthy.
        """
        try:
            answers = await self._questions.link(name)
        except Exception as error:
            code = getattr(error, "code", None)
            is_answer = code is not None and not isinstance(error, OSError)
            if not is_answer and not isinstance(error, UnicodeEncodeError):
                raise
            if code != errno.ENODEV:
                logs.emit_once(NetlinkUnanswered(interface=name, error=str(error)), name)
            return None
        return next((message[_FACT] for message in answers), None)


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
    return await blocking.compute("import", _import_pyroute2)


def _import_pyroute2() -> Netlink:
    """The sockets, of the two modules of pyroute2 that they take."""
    _pass_by_the_front_door()
    with stub_find_library():
        messages: Any = import_module("pyroute2.netlink")
        sockets: Any = import_module("pyroute2.netlink.nlsocket")

    class LinkQuestion(messages.nlmsg):  # type: ignore[misc] # imported late
        fields = _IFINFOMSG
        nla_map = _ASKED

    class LinkMarshal(sockets.Marshal):  # type: ignore[misc] # imported late
        def get_parser(self, key: int, flags: int, sequence_number: int) -> Any:
            if key in _LINK_MESSAGES:
                return partial(_link_message, key)
            return super().get_parser(key, flags, sequence_number)

    class LinkSocket(sockets.AsyncNetlinkSocket):  # type: ignore[misc] # imported late
        marshal_class = LinkMarshal
        only: frozenset[int] | None = None

        def enqueue(self, data: bytes, addr: object) -> object:
            return super().enqueue(data, addr) if is_wanted(data, self.only) else None

        async def link(self, name: str) -> list[Any]:
            question = LinkQuestion()
            question["attrs"] = [("IFLA_IFNAME", name), ("IFLA_EXT_MASK", _QUESTION)]
            answers = await self.nlm_request(question, _RTM_GETLINK, _NLM_F_REQUEST)
            return [message async for message in answers]

    links, questions = (LinkSocket(family=socket.NETLINK_ROUTE) for _ in range(2))
    return Netlink(links, questions)


def _link_message(kind: int, data: bytes, offset: int, length: int) -> dict[str, Any]:
    """A link message as pyroute2 takes one from a parser, with our own record in it."""
    header = {"type": kind, "flags": 0, "error": None}
    return {"header": header, _FACT: link_fact(data[offset : offset + length])}


def _pass_by_the_front_door() -> None:
    """Let parts of pyroute2 be imported without its ``__init__``, which imports all there is.

    The package is there as a name with a path, as long as nobody imported it whole before.
    """
    if "pyroute2" not in sys.modules and (spec := find_spec("pyroute2")) is not None:
        sys.modules["pyroute2"] = module_from_spec(spec)

"""Link events, kernel uevents and questions about interfaces: the one adapter to pyroute2.

Importing pyroute2 takes 0.1 s and 5 MiB, so :func:`open_netlink` imports it in a worker thread
once kubelet has its first lists (ADR 5). Messages about links become :class:`LinkFact` records
here; no object of pyroute2 leaves this module.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from typing import Any, Self

from agent import blocking, logs
from agent.events.netlink import NetlinkUnanswered
from agent.host.netlink import is_drained
from agent.host.rtnl_link import RTM_DELLINK, RTM_NEWLINK, link_fact
from agent.host.uevents import Overrun, Uevent, follow_uevents, open_uevents
from agent.model.link import LinkFact
from agent.startup import import_lazily

RECEIVE_BUFFER_BYTES = 8 << 20
_SO_RCVBUFFORCE = 33  # uapi asm-generic/socket.h; needs CAP_NET_ADMIN
_RTMGRP_LINK = 1  # uapi linux/rtnetlink.h
_RTM_GETLINK = 18
_RTEXT_FILTER_VF = 1
_RTEXT_FILTER_SKIP_STATS = 8  # with statistics, a list of 256 VFs exceeds what netlink can nest
_EXT_MASK = _RTEXT_FILTER_VF | _RTEXT_FILTER_SKIP_STATS
_NLM_F_REQUEST = 1  # uapi linux/netlink.h; pyroute2 would keep an acknowledgement for ever
_HEADER = struct.Struct("=4xHH8xB3xi")  # type, flags of nlmsghdr; family, index of ifinfomsg


class Netlink:
    """The open sockets; an async context manager. Socket faults come out as OSError."""

    def __init__(self, events: Any, questions: Any, link_question: Callable[[str], Any]) -> None:
        self._events = events
        self._questions = questions
        self._link_question = link_question
        self._only: frozenset[int] | None = None
        self._uevents: socket.socket | None = None
        self._listening: tuple[socket.socket, ...] = ()
        """Of both kinds of events; pyroute2 refuses access to its socket after an overrun."""
        self.receive_buffer_bytes = 0
        """Size of the receive buffer that the kernel granted for link events."""

    async def __aenter__(self) -> Self:
        try:
            await self._events.bind(groups=_RTMGRP_LINK)
            await self._questions.bind(groups=0)
            self._uevents = open_uevents()
            self._listening = (self._events.socket, self._uevents)
        except BaseException:
            self.close()
            raise
        for listening in self._listening:
            self.receive_buffer_bytes = _grow_receive_buffer(listening)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all sockets."""
        if self._uevents is not None:
            self._uevents.close()
        self._events.close()
        self._questions.close()

    def is_drained(self) -> bool:
        """Whether all events are read: from then on the kernel reports the next overrun."""
        return all(map(is_drained, self._listening))

    def only(self, ifindexes: frozenset[int] | None) -> None:
        """Drop events of other interfaces; None = drop none."""
        self._only = ifindexes

    async def links(self) -> AsyncGenerator[LinkFact | Overrun, None]:
        """Link events of the wanted interfaces from now on."""
        async for message in _messages(self._events):
            if isinstance(message, Overrun):
                yield message
                continue
            if not isinstance(message, _LinkMessage):
                continue
            # A port that leaves a bridge is reported as RTM_DELLINK of AF_BRIDGE, yet still exists.
            is_wanted = self._only is None or message.ifindex in self._only
            if is_wanted and message.family == socket.AF_UNSPEC:
                yield message.fact()

    def uevents(self) -> AsyncGenerator[Uevent | Overrun, None]:
        """Kernel uevents from now on."""
        if self._uevents is None:
            raise OSError(errno.EBADF, "the netlink sockets are not open")
        return follow_uevents(self._uevents)

    async def ask(self, name: str) -> LinkFact | None:
        """An interface with the link policies of its VFs; None = not in this network namespace.

        Also None if the kernel answers with another error, or if the name cannot be encoded: this
        is logged once per interface, and an unknown link counts as healthy.
        """
        try:
            question = self._link_question(name)
            answers = await self._questions.nlm_request(question, _RTM_GETLINK, _NLM_F_REQUEST)
            messages = [message async for message in answers]
        except Exception as error:
            code = getattr(error, "code", None)
            is_answer = code is not None and not isinstance(error, OSError)
            if not is_answer and not isinstance(error, UnicodeEncodeError):
                raise
            if code != errno.ENODEV:
                logs.emit_once(NetlinkUnanswered(interface=name, error=str(error)), name)
            return None
        return next((message.fact() for message in messages), None)


class _LinkMessage(dict[str, Any]):
    """A link message for pyroute2's ``register_policy()`` that decodes to a LinkFact (ADR 14)."""

    def __init__(self, data: bytes, offset: int) -> None:
        kind, flags, family, ifindex = _HEADER.unpack_from(data, offset)
        super().__init__(header={"type": kind, "flags": flags})
        self.family = family
        self.ifindex = ifindex
        self._at = data, offset

    def decode(self) -> None:
        """Called by pyroute2; decoding is left to :meth:`fact`, for wanted messages only."""

    def fact(self) -> LinkFact:
        return link_fact(*self._at)


async def _messages(source: Any) -> AsyncGenerator[Any, None]:
    """Messages of a socket without end; an overrun is reported at its place among them."""
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


def _grow_receive_buffer(raw: socket.socket) -> int:
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        try:
            raw.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)
            break
        except PermissionError:
            continue
    return raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


async def open_netlink() -> Netlink:
    """Import pyroute2 in a worker thread and create the sockets; entering the result opens them."""
    return await blocking.compute("import", _import_pyroute2)


def _import_pyroute2() -> Netlink:
    with import_lazily("ssl"):  # only pyroute2's probes of TLS servers use it
        from pyroute2 import AsyncIPRoute  # noqa: PLC0415 - after the first lists
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: PLC0415

    def link_question(name: str) -> Any:
        question = ifinfmsg()
        question["attrs"] = [("IFLA_IFNAME", name), ("IFLA_EXT_MASK", _EXT_MASK)]
        return question

    events, questions = AsyncIPRoute(), AsyncIPRoute()
    for opened in (events, questions):
        opened.register_policy({RTM_NEWLINK: _LinkMessage, RTM_DELLINK: _LinkMessage})
    return Netlink(events, questions, link_question)

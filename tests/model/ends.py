"""Both ends of gRPC as a process has them that can be killed, or stopped and never go on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol
from grpclib.server import Server

if TYPE_CHECKING:
    from grpclib._typing import IServable

LISTENS_AFTER_S = 0.05
"""From the name of a socket to the moment from which it can be dialled."""
LOST = (GRPCError, StreamTerminatedError, OSError, TimeoutError, AttributeError, AssertionError)
"""Whatever a call raises whose other end is not there, or goes."""


class Served(Server):
    """A server on a socket file, whose connections break as the end of a process breaks them."""

    def __init__(self, path: Path, services: Sequence[IServable]) -> None:
        super().__init__(services)
        self._path = path
        self._protocols: list[H2Protocol] = []
        self._is_started = self._is_broken_off = False

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self._protocols.append(protocol)
        return protocol

    async def begin(self) -> None:
        """Take the place of whatever lies at the path, and listen."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        await asyncio.sleep(LISTENS_AFTER_S)
        if self._is_broken_off:
            listener.close()
            return
        await self.start(sock=listener)
        self._is_started = True

    def break_off(self) -> None:
        """Close everything at once; the file stays."""
        self._is_broken_off = True
        if self._is_started:
            self.close()
        for protocol in self._protocols:
            with suppress(AttributeError):  # never connected
                protocol.connection.close()

    def stop_reading(self) -> None:
        """Take nothing in any more."""
        for protocol in self._protocols:
            stop_reading(protocol)


class Line(Channel):
    """A client's connection, which can stop to read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path=str(path))
        self._mine: H2Protocol | None = None

    def _protocol_factory(self) -> H2Protocol:
        self._mine = super()._protocol_factory()
        return self._mine

    def stop_reading(self) -> None:
        """Take nothing in any more."""
        if self._mine is not None:
            stop_reading(self._mine)


def stop_reading(protocol: H2Protocol) -> None:
    """As a process does that was sent SIGSTOP."""
    with suppress(AttributeError, RuntimeError):  # never connected, or closed
        transport = protocol.connection._transport  # it shows it to nobody
        if isinstance(transport, asyncio.Transport) and not transport.is_closing():
            transport.pause_reading()

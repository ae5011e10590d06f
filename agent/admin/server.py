"""Serves the admin socket: only the agent's own user, and root, get in."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grpclib.protocol import H2Protocol
from grpclib.server import Server

from agent import blocking, logs
from agent.errno_advice import with_advice
from agent.errors import AgentError
from agent.tasks import Retry, keep_running
from agent.transport.grpc import Peers, ServedConnection, WireCodec
from agent.transport.unix_socket import BoundSocket, bind_socket, is_listening

if TYPE_CHECKING:
    from grpclib._typing import IServable

SOCKET = "agent.sock"
MAX_REQUEST_BYTES = 64 * 1024
_UCRED = struct.Struct("=iII")  # struct ucred: process, user, group (unix(7), SO_PEERCRED)
_CLOSE_LIMIT_S = 0.1
_REMOVE_LIMIT_S = 0.5


class _TakenError(AgentError):
    """Another agent serves the socket: one that this one waits for, or that ends now."""


class _Connection(ServedConnection):
    """A connection whose peer is known to be the agent's own user or root."""

    max_message_bytes = MAX_REQUEST_BYTES

    def may_come(self, transport: asyncio.BaseTransport) -> bool:
        is_trusted = _user_of(transport.get_extra_info("socket")) in {0, os.geteuid()}
        return is_trusted and super().may_come(transport)


class _AdminServer(Server):
    """grpclib's server with a record of its connections, which it forgets when it closes."""

    def __init__(self, service: IServable) -> None:
        super().__init__([service], codec=WireCodec())
        self.peers = Peers()

    def _protocol_factory(self) -> H2Protocol:
        return _Connection(super()._protocol_factory(), self.peers)


async def serve_admin(folder: Path, service: IServable) -> None:
    """Serve ``agent.sock`` in ``folder`` until cancelled.

    A folder that cannot be written, or is full, is told once and tried again; a socket on which
    another agent listens is had once that one is gone.
    """
    path = folder / SOCKET

    def failed(error: BaseException, _: int) -> None:
        logs.emit_once("admin.unavailable", str(path), socket=str(path), error=with_advice(error))

    async def attempt() -> None:
        await _serve(path, service)

    await keep_running(attempt, expected=(OSError, AgentError), retry=Retry(), failed=failed)


async def _serve(path: Path, service: IServable) -> None:
    bound = await blocking.call("run", path, lambda: _bind(path), undo=_take_back)
    server = _AdminServer(service)
    try:
        await server.start(sock=bound.listener)
        logs.forget("admin.unavailable", str(path))
        logs.emit("admin.listening", socket=str(path))
        await asyncio.get_running_loop().create_future()
    finally:
        # A fault here must not take the place of the cancellation that led here.
        with suppress(OSError):
            await blocking.call("run", path, bound.unlink, limit_s=_REMOVE_LIMIT_S)
        await bound.take_no_more()
        server.close()
        server.peers.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await server.wait_closed()


def _bind(path: Path) -> BoundSocket:
    """Raises OSError or AgentError where it cannot be, _TakenError where it may be later."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and is_listening(path):
        raise _TakenError("another agent serves it")
    path.with_name(f".{path.name}").unlink(missing_ok=True)
    return bind_socket(path)


def _take_back(bound: BoundSocket) -> None:
    """Close a socket that came too late; for a thread."""
    bound.listener.close()
    bound.unlink()


def _user_of(peer: socket.socket) -> int:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    user: int = _UCRED.unpack(credentials)[1]
    return user

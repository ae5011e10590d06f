"""Serves the admin socket to processes of the agent's own user and of root."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent import blocking, logs
from agent.errno_advice import with_advice
from agent.errors import AgentError
from agent.events.endpoints import AdminListening, AdminUnavailable
from agent.tasks import Retry, keep_running
from agent.transport.grpc import WireCodec
from agent.transport.grpc_server import AdmittingServer
from agent.transport.unix_socket import BoundSocket, bind_socket, is_listening

if TYPE_CHECKING:
    from grpclib._typing import IServable

SOCKET = "agent.sock"
MAX_REQUEST_BYTES = 64 * 1024
_UCRED = struct.Struct("=iII")  # struct ucred: process, user, group (unix(7), SO_PEERCRED)
_CLOSE_LIMIT_S = 0.1
_REMOVE_LIMIT_S = 0.5


class _TakenError(AgentError):
    """Another agent serves the socket; it may be about to exit."""


async def serve_admin(folder: Path, service: IServable) -> None:
    """Serve ``agent.sock`` in ``folder`` until cancelled.

    If the folder cannot be written or is full, log that once and try again. If another agent is
    listening, take the socket over when it exits.
    """
    path = folder / SOCKET

    def failed(error: BaseException, _: int) -> None:
        logs.emit_once(AdminUnavailable(socket=str(path), error=with_advice(error)), str(path))

    async def attempt() -> None:
        await _serve(path, service)

    await keep_running(attempt, expected=(OSError, AgentError), retry=Retry(), failed=failed)


async def _serve(path: Path, service: IServable) -> None:
    bound = await blocking.call("run", path, lambda: _bind(path), undo=BoundSocket.discard)
    server = AdmittingServer(
        [service], WireCodec(), max_message_bytes=MAX_REQUEST_BYTES, is_trusted=_is_trusted
    )
    try:
        await server.start(sock=bound.listener)
        logs.forget(AdminUnavailable, str(path))
        logs.emit(AdminListening(socket=str(path)))
        await asyncio.get_running_loop().create_future()
    finally:
        # An error here must not replace the cancellation that led here.
        with suppress(OSError):
            await blocking.call("run", path, bound.unlink, limit_s=_REMOVE_LIMIT_S)
        await server.hang_up(bound)
        await server.closed_within(_CLOSE_LIMIT_S)


def _bind(path: Path) -> BoundSocket:
    """Raises OSError, or _TakenError while another agent listens."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and is_listening(path):
        raise _TakenError("another agent serves it")
    path.with_name(f".{path.name}").unlink(missing_ok=True)
    return bind_socket(path)


def _is_trusted(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer is a process of root or of the agent's own user."""
    peer: socket.socket = transport.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return _UCRED.unpack(credentials)[1] in {0, os.geteuid()}

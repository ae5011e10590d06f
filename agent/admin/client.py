"""The client of the admin socket, for commands."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import H2Error

from agent.admin.server import SOCKET
from agent.errors import NoAgentError
from agent.event_history import Entry
from agent.rpc.agent import v1
from agent.transport.grpc import WireCodec, unary_call

ANSWER_LIMIT_S = 30.0
_MAX_REPLY_BYTES = 64 * 2**20

ResultT = TypeVar("ResultT")


async def ask_status(folder: Path, *, devices: bool) -> v1.StatusReply:
    """The running agent's status. Raises NoAgentError."""
    return await _ask(
        folder, lambda channel: v1.AdminStub(channel).status(v1.StatusRequest(devices=devices))
    )


async def ask_explanation(folder: Path, subject: str) -> v1.Explanation:
    """The running agent's explanation. Raises NoAgentError."""
    return await _ask(
        folder, lambda channel: v1.AdminStub(channel).explain(v1.ExplainRequest(subject))
    )


async def _ask(folder: Path, call: Callable[[Channel], Awaitable[ResultT]]) -> ResultT:
    return await unary_call(
        trusted_socket(folder),
        call,
        failure=NoAgentError,
        deadline_s=ANSWER_LIMIT_S,
        max_reply_bytes=_MAX_REPLY_BYTES,
    )


async def watch(folder: Path, *, from_now: bool) -> AsyncIterator[Entry]:
    """The running agent's events until it ends. Raises NoAgentError if there is none."""
    async with Channel(path=str(trusted_socket(folder)), codec=WireCodec()) as channel:
        try:
            events = v1.AdminStub(channel).watch(v1.WatchRequest(from_now=from_now))
            async for e in events:
                yield Entry(e.number, e.time, e.level, e.name, json.loads(e.fields))
        except OSError as error:
            raise NoAgentError(f"{folder / SOCKET}: {error.strerror or error}") from None
        except (GRPCError, StreamTerminatedError, H2Error, AttributeError, AssertionError) as error:
            raise NoAgentError(f"{folder / SOCKET}: the agent closed the connection") from error


def trusted_socket(folder: Path) -> Path:
    """The socket, if root or this user created it. Raises NoAgentError.

    Its answers are shown to operators, so another user's socket must not be used.
    """
    path = folder / SOCKET
    try:
        owner = path.stat().st_uid
    except OSError as error:
        raise NoAgentError(f"{path}: {error.strerror}: is the agent running here?") from None
    if owner not in {0, os.geteuid()}:
        raise NoAgentError(f"{path}: created by user {owner}, which is neither root nor this user")
    return path

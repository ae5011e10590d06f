"""One gRPC server on one socket file, for one generation of a resource: its start and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.plugin import folders
from agent.plugin.decoding import PluginCodec
from agent.transport.grpc_server import AdmittingServer
from agent.transport.unix_socket import BoundSocket
from agent.wakeup import Wakeup

if TYPE_CHECKING:
    from grpclib._typing import IServable

ANSWER_LIMIT_S = 5.0
"""For unfinished answers after a stream was lost: kubelet waits for them without a limit, and fails
the pod if the connection ends first."""
STOP_ANSWER_LIMIT_S = 1.0
"""The same when the agent stops: longer than Allocate waits for the facts of its devices."""
END_LIMIT_S = 0.15
"""For streams to end; a stream whose peer does not read cannot."""
HANG_UP_LIMIT_S = 0.2
"""For the peer to close its connection after its stream ended."""
_FLUSH_LIMIT_S = 0.1
CLOSE_LIMIT_S = 1.2
"""All that together, from the moment when the agent stops: its share of the limit at SIGTERM."""


class PoolServer:
    """Serves ``services`` at ``path`` from ``start`` to ``close``."""

    def __init__(self, path: Path, services: Sequence[IServable], wakeup: Wakeup) -> None:
        self.path = path
        self._wakeup = wakeup
        self._server = AdmittingServer(services, PluginCodec(), on_lost=wakeup.wake)
        self._bound: BoundSocket | None = None

    async def start(self) -> None:
        """Listen, then rename the socket into place. Raises KubeletUnavailableError."""
        self._bound = await folders.bind(self.path)
        try:
            await self._server.start(sock=self._bound.listener)
        except BaseException:
            self._bound.listener.close()
            await folders.remove(self._bound)
            raise

    async def is_in_place(self) -> bool:
        """Whether the path leads to this server; True if the folder cannot be read."""
        return self._bound is None or await folders.is_in_place(self._bound)

    async def close(
        self,
        end_streams: Callable[[], None],
        *,
        is_answered: Callable[[], bool],
        is_ended: Callable[[], bool],
        is_urgent: Callable[[], bool],
    ) -> None:
        """Finish answers, remove the socket, end streams, let peers close, close the rest.

        Kubelet marks a resource as stopped when its stream ends, even if the resource was
        registered again meanwhile; it closes its connection afterwards. So after waiting for that
        it is safe to register again. Takes at most CLOSE_LIMIT_S from the moment on when
        ``is_urgent``; else ANSWER_LIMIT_S more.
        """
        if self._bound is None:
            return
        await self._within(ANSWER_LIMIT_S, lambda: is_answered() or is_urgent())
        deadline_s = asyncio.get_running_loop().time() + CLOSE_LIMIT_S
        await self._within(_left(STOP_ANSWER_LIMIT_S, deadline_s), is_answered)
        await folders.remove(self._bound, _left(folders.REMOVE_LIMIT_S, deadline_s))
        end_streams()
        await self._within(_left(END_LIMIT_S, deadline_s), is_ended)
        await self._within(_left(HANG_UP_LIMIT_S, deadline_s), self._has_no_peers)
        await self._server.hang_up(self._bound)
        await self._within(_left(_FLUSH_LIMIT_S, deadline_s), self._has_no_peers)
        for peer in self._server.peers:
            peer.transport.abort()
        await self._within(_left(_FLUSH_LIMIT_S, deadline_s), self._has_no_peers)
        await self._server.closed_within(_left(_FLUSH_LIMIT_S, deadline_s))

    def _has_no_peers(self) -> bool:
        return not len(self._server.peers)

    async def _within(self, limit_s: float, condition: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._wakeup.until(condition)


def _left(limit_s: float, deadline_s: float) -> float:
    """A limit, or less where the deadline is earlier."""
    return max(0.0, min(limit_s, deadline_s - asyncio.get_running_loop().time()))

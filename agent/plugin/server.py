"""One gRPC server on one socket file, for one generation of a pool: how it starts, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grpclib.protocol import H2Protocol
from grpclib.server import Server

from agent.plugin import folders
from agent.plugin.decoding import PluginCodec
from agent.transport.grpc import Peers, ServedConnection
from agent.transport.unix_socket import BoundSocket
from agent.wakeup import Wakeup

if TYPE_CHECKING:
    from grpclib._typing import IServable

ANSWER_LIMIT_S = 5.0
"""For answers under way to be given after a stream was lost: kubelet waits for them, without a
limit of its own, and fails the pod if the connection ends first."""
STOP_ANSWER_LIMIT_S = 1.0
"""The same where the agent stops: longer than an Allocate waits for the facts of its devices."""
END_LIMIT_S = 0.15
"""For streams to end; one whose peer does not read cannot."""
HANG_UP_LIMIT_S = 0.2
"""For the peer to hang up by itself once its stream ended."""
_FLUSH_LIMIT_S = 0.1


class _Connection(ServedConnection):
    """A connection whose end its server waits for."""

    def __init__(self, plain: H2Protocol, peers: Peers, signal: Wakeup) -> None:
        super().__init__(plain, peers)
        self._signal = signal

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._signal.wake()


class _CountingServer(Server):
    """grpclib's server, which forgets its connections when it closes, with a record of them."""

    def __init__(self, services: Sequence[IServable], signal: Wakeup) -> None:
        super().__init__(services, codec=PluginCodec())
        self._signal = signal
        self.peers = Peers()

    def _protocol_factory(self) -> H2Protocol:
        return _Connection(super()._protocol_factory(), self.peers, self._signal)


class PoolServer:
    """Serves ``services`` at ``path`` from ``start`` to ``close``."""

    def __init__(self, path: Path, services: Sequence[IServable], signal: Wakeup) -> None:
        self.path = path
        self._signal = signal
        self._server = _CountingServer(services, signal)
        self._bound: BoundSocket | None = None

    async def start(self) -> None:
        """Listen, then let the name appear. Raises KubeletUnavailableError if that cannot be."""
        self._bound = await folders.bind(self.path)
        try:
            await self._server.start(sock=self._bound.listener)
        except BaseException:
            self._bound.listener.close()
            await folders.remove(self._bound)
            raise

    async def is_in_place(self) -> bool:
        """Whether the path leads to this server; yes where the folder's fault hides that."""
        return self._bound is None or await folders.is_in_place(self._bound)

    async def close(
        self,
        end_streams: Callable[[], None],
        *,
        is_answered: Callable[[], bool],
        is_ended: Callable[[], bool],
        is_urgent: Callable[[], bool],
    ) -> None:
        """Finish answers, take the name away, end streams, let peers hang up, close what is left.

        Kubelet marks a resource as stopped when it learns of a stream's end, even if a new one was
        registered meanwhile; it hangs up once it has done so. Waiting for that makes it safe to
        register again. Takes no longer than the sum of the limits above.
        """
        if self._bound is None:
            return
        await self._within(ANSWER_LIMIT_S, lambda: is_answered() or is_urgent())
        await self._within(STOP_ANSWER_LIMIT_S, is_answered)
        await folders.remove(self._bound)
        end_streams()
        await self._within(END_LIMIT_S, is_ended)
        await self._within(HANG_UP_LIMIT_S, self._has_no_peers)
        await self._bound.take_no_more()
        self._server.close()
        self._server.peers.close()
        await self._within(_FLUSH_LIMIT_S, self._has_no_peers)
        for peer in self._server.peers:
            peer.transport.abort()
        await self._within(_FLUSH_LIMIT_S, self._has_no_peers)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_LIMIT_S):
                await self._server.wait_closed()

    def _has_no_peers(self) -> bool:
        return not len(self._server.peers)

    async def _within(self, limit_s: float, condition: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._signal.until(condition)

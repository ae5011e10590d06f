"""Listens on ``--http-address`` and serves clients within limits."""

from __future__ import annotations

import asyncio

from agent import logs
from agent.events.endpoints import HttpFailed, HttpListening, HttpUnavailable
from agent.http.address import Address
from agent.http.connection import Connection, Serve
from agent.http.messages import Answer, Request, Stream, plain
from agent.http.places import Limits, Places
from agent.tasks import Retry, keep_running

TURNED_AWAY_AT_MOST = 64
"""How many clients at a time get the answer 503; others are disconnected without one."""


class HttpServer:
    """Listens until cancelled; retries while the address is in use, and logs that once.

    During a rolling update, the agent that is being replaced still uses the address.
    """

    def __init__(self, address: Address, serve: Serve, limits: Limits | None = None) -> None:
        self._address = address
        self._serve = serve
        self._limits = limits or Limits()
        self._places = Places(self._limits)
        self._clients: dict[asyncio.Task[None], Connection] = {}
        self._turned_away = 0

    async def run(self) -> None:
        """Listen until cancelled."""
        await keep_running(
            self._listen, expected=(OSError,), retry=Retry(), failed=self._cannot_listen
        )

    def _cannot_listen(self, error: BaseException, _: int) -> None:
        address = str(self._address)
        logs.emit_once(HttpUnavailable(address=address, error=str(error)), address)

    async def _listen(self) -> None:
        server = await asyncio.start_server(
            self._client, self._address.host, self._address.port, limit=self._limits.head_bytes
        )
        names = sorted({_name(s.getsockname()) for s in server.sockets})
        logs.forget(HttpUnavailable, str(self._address))
        logs.emit(HttpListening(address=",".join(names)))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for client in self._clients:
                client.cancel()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio calls this in a task
        connection = Connection(reader, writer, self._answer, self._places, self._limits)
        try:
            if self._has_room():
                self._clients[task] = connection
                await connection.run()
            elif self._turned_away < TURNED_AWAY_AT_MOST:
                await self._turn_away(connection)
        except asyncio.CancelledError:
            writer.transport.abort()  # not raised again: asyncio's streams log that as an error
        finally:
            self._clients.pop(task, None)
            writer.close()

    def _has_room(self) -> bool:
        """Whether one more client may connect; if necessary, close the oldest idle connection.

        This way idle connections cannot block kubelet's probes.
        """
        if len(self._clients) < self._limits.connections:
            return True
        oldest = next((t for t, c in self._clients.items() if c.is_waiting), None)
        if oldest is None:
            return False
        del self._clients[oldest]
        oldest.cancel()
        return True

    async def _turn_away(self, connection: Connection) -> None:
        self._turned_away += 1
        try:
            await connection.turn_away()
        finally:
            self._turned_away -= 1

    async def _answer(self, request: Request) -> Answer | Stream:
        """Answer a request; a bug is logged and fails only this answer."""
        try:
            return await self._serve(request)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the agent
            logs.emit(HttpFailed(path=request.path, error=repr(error)))
            return plain("internal error; see the agent's log\n", 500)


def _name(socket_name: tuple[str, int]) -> str:
    return str(Address(*socket_name[:2]))

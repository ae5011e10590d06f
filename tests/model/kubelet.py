"""A stand-in for kubelet's device manager in the loop of the agent, so that both share its time.

It does what plugins can tell from outside: it sweeps its folder when it starts, dials back in the
middle of Register, never opens a lost stream again, and takes the late end of an old stream for the
end of the newest. Its plugin watcher looks each second and backs off for each path.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from agent.roots import Roots
from agent.rpc import pluginregistration as watcher_api
from agent.rpc import v1beta1

if TYPE_CHECKING:
    from grpclib._typing import IServable

DIAL_S = 10.0
LOOK_S = 1.0
_LOST = (GRPCError, StreamTerminatedError, OSError, TimeoutError, AttributeError, AssertionError)

Register = Callable[[v1beta1.RegisterRequest], Coroutine[Any, Any, None]]
Seen = tuple[tuple[str, bool], ...]
"""(id, whether it is healthy) of each device of a list."""


@attrs.define(eq=False)
class Client:
    """Kubelet's connection to one plugin socket."""

    resource: str
    path: Path
    channel: Channel
    lists: list[Seen] = attrs.Factory(list)
    following: asyncio.Task[None] | None = None

    def hang_up(self) -> None:
        """Close the connection; the stream ends with it."""
        self.channel.close()


class _Server(Server):
    """grpclib's server, whose connections can be broken as the end of a process breaks them."""

    def __init__(self, service: IServable) -> None:
        super().__init__([service])
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self._protocols.append(protocol)
        return protocol

    def break_off(self) -> None:
        """Close everything at once."""
        self.close()
        for protocol in self._protocols:
            with suppress(AttributeError):  # never connected
                protocol.connection.close()


class _Registration(v1beta1.RegistrationBase):
    def __init__(
        self, register: Callable[[v1beta1.RegisterRequest], Coroutine[Any, Any, None]]
    ) -> None:
        self._register = register

    async def register(self, message: v1beta1.RegisterRequest) -> v1beta1.Empty:
        await self._register(message)
        return v1beta1.Empty()


@attrs.define
class Mood:
    """How kubelet behaves from now on."""

    refusals: int = 0
    """So many registrations are refused."""
    hangs: bool = False
    """Register is never answered."""
    opens_streams: bool = True
    late_s: float = 0.0
    """From the next stream's end to what kubelet does about it."""


class Kubelet:
    """Serves kubelet.sock and follows plugins_registry between ``start`` and ``die``."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.mood = Mood()
        self.clients: dict[str, Client] = {}
        self.stopped: set[str] = set()
        self.streams: list[Client] = []
        """Every client whose stream is open."""
        self._server: _Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._server is not None

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """What runs for kubelet and not for the agent."""
        return frozenset(self._tasks)

    def view(self) -> dict[str, Seen]:
        """Resource -> the devices of the newest list, of all that pods can get."""
        return {
            resource: client.lists[-1]
            for resource, client in self.clients.items()
            if resource not in self.stopped and client.lists
        }

    async def start(self) -> None:
        """Sweep the folder, serve, watch."""
        folder = self.roots.device_plugins
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if not path.is_dir():
                path.unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.roots.kubelet_socket))
        self._server = _Server(_Registration(self._register))
        await self._server.start(sock=listener)
        self._run(self._watch())

    async def die(self) -> None:
        """End as a killed process does: connections break, socket files stay."""
        server, self._server = self._server, None
        if server is None:
            return
        server.break_off()
        for task in self._tasks:
            task.cancel()
        for client in {*self.clients.values(), *self.streams}:
            client.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.clients.clear()
        self.stopped.clear()
        self.streams.clear()

    def drop_stream(self, resource: str) -> None:
        """End a stream from kubelet's side; the connection stays for a moment."""
        client = self.clients.get(resource)
        if client is not None and client.following is not None:
            client.following.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _register(self, request: v1beta1.RegisterRequest) -> None:
        if self.mood.hangs:
            await asyncio.get_running_loop().create_future()
        if self._refuses():
            raise GRPCError(Status.INVALID_ARGUMENT, "refused by the test")
        path = self.roots.device_plugins / request.endpoint
        try:
            await self._connect(request.resource_name, path)
        except _LOST as error:
            raise GRPCError(Status.UNKNOWN, f"failed to dial back: {error}") from error

    def _refuses(self) -> bool:
        self.mood.refusals -= 1
        return self.mood.refusals >= 0

    async def _connect(self, resource: str, path: Path) -> None:
        client = Client(resource, path, Channel(path=str(path)))
        stub = v1beta1.DevicePluginStub(client.channel)
        try:
            await stub.get_device_plugin_options(v1beta1.Empty(), timeout=DIAL_S)
        except BaseException:
            client.hang_up()
            raise
        self.clients[resource] = client
        self.stopped.discard(resource)
        if self.mood.opens_streams:
            client.following = self._run(self._follow(client))

    async def _follow(self, client: Client) -> None:
        self.streams.append(client)
        was_dropped = False
        try:
            stub = v1beta1.DevicePluginStub(client.channel)
            async for response in stub.list_and_watch(v1beta1.Empty()):
                devices = ((d.id, d.health == "Healthy") for d in response.devices)
                client.lists.append(tuple(devices))
        except asyncio.CancelledError:
            was_dropped = True
        except _LOST:
            pass
        self.streams.remove(client)
        if self._server is None:
            return
        late_s, self.mood.late_s = self.mood.late_s, 0.0
        if was_dropped or late_s:
            self._run(self._stop_newest(client, late_s))
        else:
            await self._stop_newest(client, 0.0)

    async def _stop_newest(self, ended: Client, late_s: float) -> None:
        """The race of the released kubelets: whichever client is the newest is stopped."""
        await asyncio.sleep(late_s)
        newest = self.clients.pop(ended.resource, None)
        ended.hang_up()
        if newest is not None:
            self.stopped.add(ended.resource)
            newest.hang_up()

    async def _watch(self) -> None:
        known: dict[Path, str] = {}
        due: dict[Path, tuple[float, float]] = {}
        loop = asyncio.get_running_loop()
        while True:
            found = _visible_sockets(self.roots.plugins_registry)
            for path in known.keys() - found:
                self._deregister(known.pop(path), path)
            for path in sorted(found - known.keys()):
                after, delay_s = due.get(path, (0.0, 0.5))
                if loop.time() < after:
                    continue
                resource = await self._shake_hands(path)
                if resource is None:
                    due[path] = (loop.time() + delay_s, min(delay_s * 2, 122.0))
                else:
                    known[path] = resource
            await asyncio.sleep(LOOK_S)

    async def _shake_hands(self, path: Path) -> str | None:
        channel = Channel(path=str(path))
        stub = watcher_api.RegistrationStub(channel)
        try:
            info = await stub.get_info(watcher_api.InfoRequest(), timeout=1.0)
            is_refused = self._refuses()
            if not is_refused:
                await self._connect(info.name, Path(info.endpoint or path))
            verdict = watcher_api.RegistrationStatus(
                plugin_registered=not is_refused, error="refused by the test" if is_refused else ""
            )
            await stub.notify_registration_status(verdict, timeout=5.0)
        except _LOST:
            return None
        finally:
            channel.close()
        return None if is_refused else info.name

    def _deregister(self, resource: str, path: Path) -> None:
        client = self.clients.get(resource)
        if client is not None and client.path == path:
            del self.clients[resource]
            client.hang_up()


def _visible_sockets(folder: Path) -> set[Path]:
    try:
        return {p for p in folder.iterdir() if p.is_socket() and not p.name.startswith(".")}
    except OSError:
        return set()

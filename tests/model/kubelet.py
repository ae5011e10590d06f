"""A stand-in for kubelet's device manager in the loop of the agent, so that both share its time.

One object is one process: it sweeps its folder when it starts, dials back in the middle of
Register, never opens a lost stream again, and takes the late end of an old stream for the end of
the newest. What it does in the middle of a registration is set before, as its mood.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import attrs
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.roots import Roots
from agent.rpc import v1beta1
from tests.model.ends import LOST, Line, Served
from tests.model.pods import Claim, PodResources, Pods

DIAL_S = 10.0
SLOW_S = 3.0
"""How long a kubelet takes that is slow in the middle of a registration."""

Seen = tuple[tuple[str, bool], ...]
"""(id, whether it is healthy) of each device of a list."""
Stage = Literal["asked", "dialled", "streaming"]
"""How far a registration came: before the dial back, after it, with the list on its way."""
Deed = Literal["hang", "be slow", "die", "restart"]
STAGES: tuple[Stage, ...] = ("asked", "dialled", "streaming")
DEEDS: tuple[Deed, ...] = ("hang", "be slow", "die", "restart")


@attrs.define(eq=False)
class Client:
    """Kubelet's connection to one plugin socket."""

    resource: str
    path: Path
    line: Line
    prefers: bool = False
    """Whether the plugin wants to be asked which devices to take."""
    lists: list[Seen] = attrs.Factory(list)
    following: asyncio.Task[None] | None = None

    @property
    def stub(self) -> v1beta1.DevicePluginStub:
        """What can be asked."""
        return v1beta1.DevicePluginStub(self.line)

    def hang_up(self) -> None:
        """Close the connection; the stream ends with it."""
        self.line.close()


@attrs.define
class Mood:
    """How kubelets behave from now on."""

    refusals: int = 0
    """So many registrations are refused."""
    traps: deque[tuple[Stage, Deed]] = attrs.Factory(deque)
    """What happens in the middle of the next registrations, in this order."""
    opens_streams: bool = True
    late_s: float = 0.0
    """From the next stream's end to what kubelet does about it."""
    unaware_s: float = 0.0
    """How long a kubelet that starts does not know its pods: the API server is away."""
    sweeps: bool = True
    """Whether a kubelet that starts removes every file of its folder, as most releases do, but for
    its checkpoint."""

    def calm_down(self) -> None:
        """Be as a kubelet is that nothing is wrong with."""
        self.refusals, self.opens_streams, self.late_s, self.unaware_s = 0, True, 0.0, 0.0
        self.traps.clear()


class _Registration(v1beta1.RegistrationBase):
    def __init__(
        self, register: Callable[[v1beta1.RegisterRequest], Coroutine[Any, Any, None]]
    ) -> None:
        self._register = register

    async def register(self, message: v1beta1.RegisterRequest) -> v1beta1.Empty:
        await self._register(message)
        return v1beta1.Empty()


Ended = Callable[["Kubelet", bool], None]
"""Told when a process is to end in the middle of what it does; True = another follows at once."""


class Kubelet:
    """One process, from ``start`` to ``die``: its registry of plugins and their streams."""

    def __init__(self, roots: Roots, mood: Mood, pods: Pods, ended: Ended) -> None:
        self.roots = roots
        self.mood = mood
        self.pods = pods
        self.clients: dict[str, Client] = {}
        self.stopped: set[str] = set()
        self.streams: list[Client] = []
        """Every client whose stream is open."""
        self.is_alive = False
        self.reads = True
        self.watching: asyncio.Task[None] | None = None
        """Its plugin watcher."""
        self._ended = ended
        self._is_over = False
        self._aware_at = 0.0
        self._servers: tuple[Served, ...] = ()
        self._dialled: list[Client] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """What runs for kubelet and not for the agent."""
        return frozenset(self._tasks)

    @property
    def is_at_work(self) -> bool:
        """Whether it begins anything: the library may tell a cancelled task of a lost call."""
        return self.is_alive and not self._is_over

    def view(self) -> dict[str, Seen]:
        """Resource -> the devices of the newest list, of all that pods can get."""
        return {
            resource: client.lists[-1]
            for resource, client in self.clients.items()
            if resource not in self.stopped and client.lists
        }

    async def start(self) -> None:
        """Sweep the folder, then serve."""
        folder = self.roots.device_plugins
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir() if self.mood.sweeps else ():
            if not path.is_dir() and path != self.roots.kubelet_checkpoint:
                path.unlink()
        self.is_alive = True
        self._aware_at = asyncio.get_running_loop().time() + self.mood.unaware_s
        self._servers = (
            Served(self.roots.kubelet_socket, [_Registration(self._register)]),
            Served(self.roots.pod_resources_socket, [PodResources(self.pods, self._is_aware)]),
        )
        for server in self._servers:
            if self.is_alive:
                await server.begin()

    async def die(self) -> None:
        """End as a killed process does: connections break, socket files stay."""
        self.is_alive = False
        for server in self._servers:
            server.break_off()
        for task in self._tasks:
            task.cancel()
        for client in self._dialled:
            client.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_on(self, *, reads: bool) -> None:
        """Leave everything open and begin nothing more; take in what comes, or not even that."""
        self._is_over = True
        if self.watching is not None:
            self.watching.cancel()
        if reads:
            return
        self.reads = False
        for server in self._servers:
            server.stop_reading()
        for client in self._dialled:
            client.line.stop_reading()

    def drop_stream(self, number: int) -> None:
        """End a stream from kubelet's side; the connection stays for a moment."""
        resources = sorted(self.clients)
        if resources:
            following = self.clients[resources[number % len(resources)]].following
            if following is not None:
                following.cancel()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let the process do this until it ends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Registration

    async def _register(self, request: v1beta1.RegisterRequest) -> None:
        await self.reach("asked")
        if self.refuses():
            raise GRPCError(Status.INVALID_ARGUMENT, "refused by the test")
        path = self.roots.device_plugins / request.endpoint
        try:
            client = await self.connect(request.resource_name, path)
        except LOST as error:
            raise GRPCError(Status.UNKNOWN, f"failed to dial back: {error}") from error
        told = request.options and request.options.get_preferred_allocation_available
        assert bool(told) == client.prefers

    def refuses(self) -> bool:
        """Whether the next registration is refused."""
        self.mood.refusals -= 1
        return self.mood.refusals >= 0

    async def reach(self, stage: Stage) -> None:
        """Come so far in a registration, and do what was set for it."""
        if self._is_over:
            await asyncio.get_running_loop().create_future()
        traps = self.mood.traps
        if not traps or traps[0][0] != stage:
            return
        _, deed = traps.popleft()
        if deed == "be slow":
            await asyncio.sleep(SLOW_S)
            return
        if deed != "hang":
            self._ended(self, deed == "restart")
        await asyncio.get_running_loop().create_future()

    async def connect(self, resource: str, path: Path) -> Client:
        """Dial a plugin, make it the newest of its resource and follow its list."""
        client = Client(resource, path, Line(path))
        self._dialled.append(client)
        try:
            options = await client.stub.get_device_plugin_options(v1beta1.Empty(), timeout=DIAL_S)
            await self.reach("dialled")
            if not self.is_at_work:
                raise ConnectionError  # noqa: TRY301 - a line that is used again would be opened again
        except BaseException:
            client.hang_up()
            raise
        client.prefers = options.get_preferred_allocation_available
        self.clients[resource] = client
        self.stopped.discard(resource)
        if self.mood.opens_streams:
            client.following = self.run(self._follow(client))
        await self.reach("streaming")
        return client

    async def _follow(self, client: Client) -> None:
        self.streams.append(client)
        was_dropped = False
        try:
            async for response in client.stub.list_and_watch(v1beta1.Empty()):
                devices = ((d.id, d.health == "Healthy") for d in response.devices)
                client.lists.append(tuple(devices))
                self._write_checkpoint()
        except asyncio.CancelledError:
            was_dropped = True
        except LOST:
            pass
        self.streams.remove(client)
        if not self.is_alive:
            return
        late_s, self.mood.late_s = self.mood.late_s, 0.0
        if was_dropped or late_s:
            self.run(self._stop_newest(client, late_s))
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

    # Pods

    def _is_aware(self) -> bool:
        """Whether it has heard of its pods from the API server."""
        return asyncio.get_running_loop().time() >= self._aware_at

    def _write_checkpoint(self) -> None:
        """As kubelet does after each allocation and each list."""
        path = self.roots.kubelet_checkpoint
        with suppress(FileNotFoundError):  # the folder
            draft = path.with_name(".checkpoint-draft")
            draft.write_bytes(self.pods.checkpoint())
            draft.rename(path)

    async def start_pod(self, number: int, *, dies: bool = False) -> None:
        """Give a pod a free device of one of the resources; ``dies`` = before it runs.

        It knows what is free of one resource, and looks at no other.
        """
        if self._is_aware():
            self.pods.forget_ended()
        given = {(c.resource, d) for c in self.pods.recorded.values() for d in c.devices}
        free = [
            (resource, device)
            for resource, devices in sorted(self.view().items())
            for device, is_healthy in devices
            if is_healthy and (resource, device) not in given
        ]
        if not free:
            return
        resource, device = free[number % len(free)]
        if await self.allocate(resource, device) is not None:
            self.pods.start(Claim(resource, (device,)), dies=dies)
            self._write_checkpoint()

    async def allocate(
        self, resource: str, device: str
    ) -> v1beta1.ContainerAllocateResponse | None:
        """Ask for one device; None where it is refused, or the plugin is gone."""
        request = v1beta1.ContainerAllocateRequest(devices_ids=[device])
        message = v1beta1.AllocateRequest(container_requests=[request])
        try:
            reply = await self.clients[resource].stub.allocate(message, timeout=DIAL_S)
        except LOST:
            return None
        self.pods.answered.add(device)
        return reply.container_responses[0]

"""A stand-in for kubelet, for the demo: it lets plugins register and keeps their lists."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Self

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server

from agent.roots import Roots
from agent.rpc import v1beta1

Lists = dict[str, dict[str, str]]


class DemoKubelet(v1beta1.RegistrationBase):
    """Serves kubelet.sock below ``roots``; an async context manager.

    ``lists`` holds, per resource, device id -> health as last told.
    """

    def __init__(self, roots: Roots) -> None:
        self.lists: Lists = {}
        self.registrations = 0
        self.changed = asyncio.Condition()
        self._roots = roots
        self._stubs: dict[str, v1beta1.DevicePluginStub] = {}
        self._stack = AsyncExitStack()
        self._followers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = Server([self])
        await self._server.start(path=str(self._roots.kubelet_socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self._stack.aclose()

    async def register(self, message: v1beta1.RegisterRequest) -> v1beta1.Empty:
        """Dial the plugin back, as kubelet does from inside Register."""
        path = self._roots.device_plugins / message.endpoint
        channel = self._stack.enter_context(_closing(Channel(path=str(path))))
        stub = v1beta1.DevicePluginStub(channel)
        await stub.get_device_plugin_options(v1beta1.Empty())
        self.registrations += 1
        self._stubs[message.resource_name] = stub
        follower = asyncio.create_task(self._follow(message.resource_name, stub))
        self._followers.add(follower)
        return v1beta1.Empty()

    async def _follow(self, resource: str, stub: v1beta1.DevicePluginStub) -> None:
        """Keep what the plugin lists; a stream that ends leaves its devices unusable."""
        with suppress(GRPCError, StreamTerminatedError, OSError):
            async for response in stub.list_and_watch(v1beta1.Empty()):
                await self._note(resource, {d.id: d.health for d in response.devices})
        await self._note(resource, dict.fromkeys(self.lists.get(resource, {}), "Unhealthy"))

    async def _note(self, resource: str, devices: dict[str, str]) -> None:
        async with self.changed:
            self.lists[resource] = devices
            self.changed.notify_all()

    async def allocate(self, resource: str, size: int) -> v1beta1.ContainerAllocateResponse:
        """Ask for a preference, then allocate it, as kubelet does for one container."""
        free = [i for i, health in self.lists[resource].items() if health == "Healthy"]
        wanted = v1beta1.ContainerPreferredAllocationRequest(
            available_device_ids=free, allocation_size=size
        )
        preferred = await self._stubs[resource].get_preferred_allocation(
            v1beta1.PreferredAllocationRequest(container_requests=[wanted])
        )
        chosen = preferred.container_responses[0].device_ids
        request = v1beta1.ContainerAllocateRequest(devices_ids=chosen)
        response = await self._stubs[resource].allocate(
            v1beta1.AllocateRequest(container_requests=[request])
        )
        return response.container_responses[0]


class _closing:  # noqa: N801 - reads like contextlib's
    """A channel as a context manager."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __enter__(self) -> Channel:
        return self._channel

    def __exit__(self, *_: object) -> None:
        self._channel.close()

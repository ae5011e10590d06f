"""All pools' servers, kept equal to the offers: the last step from the host to kubelet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from agent import logs
from agent.bus import Bus
from agent.kubelet.events import KubeletSocketAppeared, PluginFoldersChanged, PluginSocketChanged
from agent.model.answers import Backend, DeviceListing
from agent.model.plugin_events import PoolServerState, ServerEnded
from agent.plugin import folders
from agent.plugin.generation import Limits, PluginContext
from agent.plugin.registration import RegistrationMethods, RegistrationMode
from agent.plugin.resource import ResourcePlugin
from agent.roots import Roots
from agent.transport.unix_socket import require_room


class Fleet:
    """One server for each offered resource, registered with kubelet and kept so.

    An async context manager, entered inside ``tasks``, whose children the supervisors become.
    Entering removes dead sockets that earlier processes left behind. Leaving ends all streams
    without an empty list (kubelet keeps the capacity), in parallel, in less than a second.
    Whoever publishes the hints of ``agent.kubelet.events`` on ``bus`` should be at work before.
    """

    def __init__(
        self,
        roots: Roots,
        answers: Backend,
        bus: Bus,
        tasks: asyncio.TaskGroup,
        mode: RegistrationMode = "auto",
        *,
        limits: Limits | None = None,
    ) -> None:
        self._roots = roots
        self._bus = bus
        self._tasks = tasks
        self._mode = mode
        ways = RegistrationMethods(mode, roots.plugins_registry)
        self._around = PluginContext(
            roots, answers, bus, os.urandom(4).hex(), limits or Limits(), ways
        )
        self._pools: dict[str, ResourcePlugin] = {}
        self._leaving: dict[str, ResourcePlugin] = {}
        self._subscriptions = ExitStack()

    async def __aenter__(self) -> Self:
        """Raises SocketPathTooLongError if kubelet's folders leave no room for a socket name."""
        device_plugins, registry = self._roots.device_plugins, self._roots.plugins_registry
        if self._mode != "watcher":
            require_room(device_plugins)
        if self._mode != "legacy":
            require_room(registry)
        removed = await folders.remove_dead((device_plugins, registry))
        if removed:
            logs.emit("plugin.leftovers_removed", sockets=[path.name for path in removed])
        on = self._bus.on
        self._subscriptions.callback(on(KubeletSocketAppeared, self._kubelet_appeared))
        self._subscriptions.callback(on(PluginSocketChanged, self._socket_changed))
        self._subscriptions.callback(on(PluginFoldersChanged, self._folders_changed))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._subscriptions.close()
        for pool in self._pools.values():
            pool.stop()
        for pool in (*self._pools.values(), *self._leaving.values()):
            await pool.finished.wait()

    def apply(
        self, offers: tuple[DeviceListing, ...], served_elsewhere: Collection[str] = frozenset()
    ) -> None:
        """Make ``offers`` the desired state; returns at once, the supervisors do the work.

        Unchanged pools keep socket, stream and generation; a changed list is one push per stream;
        a resource that is offered no more gets an empty list, then its stream ends. One of
        ``served_elsewhere`` gets no empty list: another process sends its list.
        """
        wanted = {offer.resource: offer for offer in offers}
        for resource in sorted(self._pools.keys() - wanted.keys()):
            self._retire(resource, is_served_elsewhere=resource in served_elsewhere)
        for resource, offer in wanted.items():
            if resource in self._pools:
                self._pools[resource].offer(offer)
            else:
                self._begin(offer)

    def state(self) -> tuple[PoolServerState, ...]:
        """Each pool's standing, sorted by resource; pools on their way out are not listed."""
        return tuple(self._pools[resource].state() for resource in sorted(self._pools))

    def _begin(self, offer: DeviceListing) -> None:
        before = self._leaving.get(offer.resource)
        pool = ResourcePlugin(offer, self._around, before.finished if before else None)
        self._pools[offer.resource] = pool
        task = self._tasks.create_task(pool.run(), name=f"plugin:{offer.resource}")
        task.add_done_callback(lambda _: self._forget(pool))

    def _retire(self, resource: str, *, is_served_elsewhere: bool) -> None:
        pool = self._pools.pop(resource)
        self._leaving[resource] = pool
        if is_served_elsewhere:
            pool.stop()
        else:
            pool.retire()
        logs.emit("plugin.removed", resource=resource)

    def _forget(self, pool: ResourcePlugin) -> None:
        pool.finished.set()
        if self._leaving.get(pool.resource) is pool:
            del self._leaving[pool.resource]
        self._bus.publish(ServerEnded(pool.resource))

    def _kubelet_appeared(self, _: KubeletSocketAppeared) -> None:
        for pool in self._pools.values():
            pool.kubelet_appeared()

    def _folders_changed(self, _: PluginFoldersChanged) -> None:
        for pool in self._pools.values():
            pool.recheck()

    def _socket_changed(self, hint: PluginSocketChanged) -> None:
        changed = str(hint.path)
        for pool in self._pools.values():
            if pool.socket == changed:
                pool.socket_changed()

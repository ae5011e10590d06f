"""The servers of all resources, kept in line with the lists: the last step before kubelet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import ExitStack
from typing import Self

from agent import logs
from agent.bus import Bus
from agent.events.plugin import LeftoversRemoved, PluginRemoved
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
    """One server for each resource, kept registered with kubelet.

    An async context manager, entered inside ``tasks``, in which each server has a task. Entering
    removes the sockets that earlier processes left. Leaving ends all streams without an empty list
    (kubelet keeps the capacity), in parallel, in less than a second. The events of
    ``agent.kubelet.events`` should be published on ``bus`` before it is entered.
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
        methods = RegistrationMethods(mode, roots.plugins_registry)
        self._context = PluginContext(
            roots, answers, bus, os.urandom(4).hex(), limits or Limits(), methods
        )
        self._plugins: dict[str, ResourcePlugin] = {}
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
            logs.emit(LeftoversRemoved(sockets=tuple(path.name for path in removed)))
        on = self._bus.on
        self._subscriptions.callback(on(KubeletSocketAppeared, self._kubelet_appeared))
        self._subscriptions.callback(on(PluginSocketChanged, self._socket_changed))
        self._subscriptions.callback(on(PluginFoldersChanged, self._folders_changed))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscriptions.close()
        for plugin in self._plugins.values():
            plugin.stop()
        for plugin in (*self._plugins.values(), *self._leaving.values()):
            await plugin.finished.wait()

    def apply(
        self, offers: tuple[DeviceListing, ...], served_elsewhere: Collection[str] = frozenset()
    ) -> None:
        """Make ``offers`` the desired state; returns at once, the tasks do the work.

        Unchanged resources keep socket, stream and generation. A changed list is one push. A
        resource that is no longer offered gets an empty list, then its stream ends; one of
        ``served_elsewhere`` gets no empty list, because another process sends its list.
        """
        wanted = {offer.resource: offer for offer in offers}
        for resource in sorted(self._plugins.keys() - wanted.keys()):
            self._remove(resource, is_served_elsewhere=resource in served_elsewhere)
        for resource, offer in wanted.items():
            if resource in self._plugins:
                self._plugins[resource].offer(offer)
            else:
                self._begin(offer)

    def state(self) -> tuple[PoolServerState, ...]:
        """The state of each server, sorted by resource, without those that are ending."""
        return tuple(self._plugins[resource].state() for resource in sorted(self._plugins))

    def _begin(self, offer: DeviceListing) -> None:
        before = self._leaving.get(offer.resource)
        plugin = ResourcePlugin(offer, self._context, before.finished if before else None)
        self._plugins[offer.resource] = plugin
        task = self._tasks.create_task(plugin.run(), name=f"plugin:{offer.resource}")
        task.add_done_callback(lambda _: self._forget(plugin))

    def _remove(self, resource: str, *, is_served_elsewhere: bool) -> None:
        plugin = self._plugins.pop(resource)
        self._leaving[resource] = plugin
        if is_served_elsewhere:
            plugin.stop()
        else:
            plugin.retire()
        logs.emit(PluginRemoved(resource=resource))

    def _forget(self, plugin: ResourcePlugin) -> None:
        plugin.finished.set()
        if self._leaving.get(plugin.resource) is plugin:
            del self._leaving[plugin.resource]
        self._bus.publish(ServerEnded(plugin.resource))

    def _kubelet_appeared(self, _: KubeletSocketAppeared) -> None:
        for plugin in self._plugins.values():
            plugin.kubelet_appeared()

    def _folders_changed(self, _: PluginFoldersChanged) -> None:
        for plugin in self._plugins.values():
            plugin.recheck()

    def _socket_changed(self, hint: PluginSocketChanged) -> None:
        changed = str(hint.path)
        for plugin in self._plugins.values():
            if plugin.socket == changed:
                plugin.socket_changed()

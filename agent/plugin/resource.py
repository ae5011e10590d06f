"""One resource from offer to kubelet: generation after generation of servers, each registered.

An attempt is: serve, register, follow until something is lost. Whatever ends it, the old streams
are closed before the next generation registers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent import logs
from agent.errors import KubeletUnavailableError
from agent.model.answers import DeviceListing, ListedDevice
from agent.model.plugin_events import (
    ListPushed,
    PoolServerState,
    Registered,
    RegistrationFailed,
    StreamLost,
    StreamOpened,
)
from agent.plugin import folders
from agent.plugin.device_list import DeviceList
from agent.plugin.generation import Generation, PluginContext
from agent.plugin.registration import register
from agent.plugin.server import PoolServer
from agent.plugin.service import DevicePluginService, RegistrationService
from agent.plugin.watcher import await_verdict, await_within
from agent.tasks import QUICK_TRIES, Retry
from agent.transport.unix_socket import socket_path, socket_token
from agent.wakeup import Wakeup

HASTE_S = 0.05
"""A generation undone from outside within less is not made anew without a pause."""
KUBELET_REPLACED = "kubelet.sock was replaced"
FAREWELL_LIMIT_S = 0.25
"""For kubelet to take the empty list of a resource that is no more."""


class ResourcePlugin:
    """Keeps one resource registered, from the first offer until ``retire`` or ``stop``."""

    def __init__(
        self, offer: DeviceListing, surroundings: PluginContext, after: asyncio.Event | None = None
    ) -> None:
        self.resource = offer.resource
        self.finished = asyncio.Event()
        """Set by whoever runs the pool, once it ran to its end."""
        self._around = surroundings
        self._after = after
        self._signal = Wakeup()
        self._device_list = DeviceList(self._signal, self)
        self._device_list.publish(offer.devices, offer.seen_at)
        self._retry = Retry()
        self._hinted = asyncio.Event()
        """Set when the files of kubelet's folders may have changed since they were looked at."""
        self._now: Generation | None = None
        self._ending = False
        self._empty_first = False
        self._bug: Exception | None = None
        self._generations = 0
        self._registrations = 0
        self._lists_pushed = 0
        self._last_error: str | None = None
        self._since_s = asyncio.get_running_loop().time()

    def offer(self, offer: DeviceListing) -> None:
        """Push the list if it changed."""
        self._device_list.publish(offer.devices, offer.seen_at)

    def retire(self) -> None:
        """End with an empty list: the resource is no more."""
        self._empty_first = True
        self.stop()

    def stop(self) -> None:
        """End as is: kubelet keeps the capacity for whoever registers next."""
        self._ending = True
        self._retry.hint()
        self._signal.wake()

    def kubelet_appeared(self) -> None:
        """kubelet.sock was made: a new kubelet knows nothing of a legacy registration."""
        self._retry.hint()
        self._hinted.set()

    def recheck(self) -> None:
        """Anything may have changed in kubelet's folders."""
        self.kubelet_appeared()

    def socket_changed(self) -> None:
        """Something happened to the socket's file: it was made, removed or replaced."""
        self._hinted.set()

    async def _follow_files(self, now: Generation) -> None:
        """End the generation once its socket or its kubelet.sock is another file than before."""
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            await self._look_at_files(now)

    async def _look_at_files(self, now: Generation) -> None:
        seen = await folders.look_at(self._around.roots.kubelet_socket)
        if seen is not None and seen != now.kubelet:
            if now.way == "legacy":
                self._undo(KUBELET_REPLACED)
            else:
                now.kubelet, now.kubelet_since_s = seen, self._loop_s()
                self._signal.wake()
        if not await now.server.is_in_place():
            self._undo("the socket was removed")

    @property
    def socket(self) -> str | None:
        """Path of the socket being served."""
        return str(self._now.server.path) if self._now else None

    def state(self) -> PoolServerState:
        """How the resource stands with kubelet."""
        now = self._now
        return PoolServerState(
            resource=self.resource,
            registered_by=now.way if now and now.registered else None,
            generation=self._generations,
            stream_live=self._device_list.live,
            socket=self.socket,
            registrations=self._registrations,
            lists_pushed=self._lists_pushed,
            last_error=self._last_error,
            since_s=self._since_s,
            note=self._around.ways.note,
        )

    async def run(self) -> None:
        """Serve until asked to end; a fault in an answer comes out as the exception it was."""
        if self._after is not None:
            await self._after.wait()
        while not self._ending:
            await self._attempt()

    async def _attempt(self) -> None:
        try:
            at_once = await self._serve()
            if not at_once:
                self._note_short_life()
        except KubeletUnavailableError as error:
            at_once = False
            self._note_failure(str(error))
        if self._bug is not None:
            raise self._bug
        if at_once:
            self._retry.succeeded()
            self._forget_ends()
        elif not self._ending:
            await self._retry.wait()

    def _forget_ends(self) -> None:
        """A generation lived: the next end of one is news again."""
        logs.forget("plugin.stream_lost", self.resource)
        logs.forget("plugin.invalidated", self.resource)
        logs.forget("plugin.unsteady", self.resource)

    def _note_short_life(self) -> None:
        """A generation was registered, and ended soon; several of them in a row are a problem."""
        if self._retry.failures >= QUICK_TRIES and not self._ending:
            logs.emit_once(
                "plugin.unsteady",
                self.resource,
                resource=self.resource,
                within_s=self._around.limits.steady_s,
            )

    async def _serve(self) -> bool:
        """One generation; tells whether it ended so that the next may follow at once."""
        self._hinted.clear()
        now = await self._make_generation()
        self._device_list.begin()
        self._now = now
        following = asyncio.create_task(self._follow_files(now))
        following.add_done_callback(self._note_if_failed)
        try:
            await now.server.start()
            await self._register(now)
            return await self._follow(now)
        finally:
            following.cancel()
            if self._empty_first:
                await self._say_farewell()
            await now.server.close(
                self._device_list.end,
                is_answered=lambda: not now.service.answering,
                is_ended=lambda: not self._device_list.live,
                is_urgent=lambda: self._ending,
            )
            await asyncio.gather(following, return_exceptions=True)
            self._now = None
            self._touch()

    async def _make_generation(self) -> Generation:
        roots = self._around.roots
        way = await folders.choose_method(self._around.ways, roots)
        await self._warn_of_others()
        kubelet = await folders.require_kubelet_socket(roots) if way == "legacy" else None
        self._generations += 1
        folder = roots.plugins_registry if way == "watcher" else roots.device_plugins
        token = socket_token(self._generations, self._around.process_token)
        service = DevicePluginService(
            self.resource, self._device_list, self._around.answers, self._note_bug
        )
        handshake = RegistrationService(self.resource, self._note_dialled, self._note_verdict)
        path = socket_path(folder, self.resource, token)
        server = PoolServer(path, (service, handshake), self._signal)
        now_s = self._loop_s()
        return Generation(self._generations, way, server, service, kubelet, now_s, now_s)

    async def _register(self, now: Generation) -> None:
        if now.way == "watcher":
            await await_verdict(
                self.resource, now, self._around, self._signal, lambda: self._is_over(now)
            )
            return
        call = register(
            self._around.roots, self.resource, now.server.path.name, now.service.options
        )
        try:
            is_answered = await self._signal.run_unless(lambda: self._is_over(now), call)
        except KubeletUnavailableError:
            if await folders.is_kubelet_served(self._around.roots):
                self._around.ways.legacy_failed()
            raise
        if is_answered:
            self._note_registered(now)
            if not await now.server.is_in_place():
                self._undo("the socket was removed")

    async def _follow(self, now: Generation) -> bool:
        missing = f"{self.resource}: registered, but kubelet did not ask for the list"
        while not self._is_over(now):
            await await_within(
                self._signal,
                self._around.limits.stream_s,
                missing,
                lambda: self._device_list.opened >= now.streams_due or self._is_over(now),
            )
            await self._signal.until(
                lambda: (
                    not self._device_list.live
                    or self._device_list.opened < now.streams_due
                    or self._is_over(now)
                )
            )
            if not self._device_list.live:
                break
        if now.refusal is not None:
            raise KubeletUnavailableError(f"{self.resource}: kubelet refused: {now.refusal}")
        age_s = self._loop_s() - now.began_s
        is_of_kubelet = now.invalidated == KUBELET_REPLACED
        return age_s >= (HASTE_S if is_of_kubelet else self._around.limits.steady_s)

    def _is_over(self, now: Generation) -> bool:
        return bool(self._ending or self._bug or now.invalidated or now.refusal is not None)

    async def _say_farewell(self) -> None:
        self._device_list.publish(())
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_LIMIT_S):
                await self._signal.until(
                    lambda: (
                        not self._device_list.live
                        or self._device_list.pushed == self._device_list.sequence
                    )
                )

    def stream_opened(self) -> None:
        """Kubelet follows the list."""
        self._touch()
        logs.emit("plugin.stream_opened", resource=self.resource, generation=self._generations)
        self._around.bus.publish(StreamOpened(self.resource, self._generations))

    def stream_lost(self) -> None:
        """Kubelet follows the list no more, and will never ask for it again by itself."""
        self._touch()
        logs.emit_once(
            "plugin.stream_lost",
            self.resource,
            resource=self.resource,
            generation=self._generations,
        )
        self._around.bus.publish(StreamLost(self.resource, self._generations))

    def list_pushed(
        self, sequence: int, devices: tuple[ListedDevice, ...], seen_at: float | None
    ) -> None:
        """A list was sent to kubelet."""
        self._lists_pushed += 1
        healthy = sum(device.healthy for device in devices)
        unhealthy = len(devices) - healthy
        logs.emit(
            "plugin.list_pushed",
            resource=self.resource,
            healthy=healthy,
            unhealthy=unhealthy,
            sequence=sequence,
        )
        self._around.bus.publish(ListPushed(self.resource, healthy, unhealthy, sequence, seen_at))

    def _note_dialled(self) -> None:
        if self._now is not None:
            self._now.dialled = True
            self._around.ways.dialled()
            self._now.streams_before = self._device_list.opened
            self._signal.wake()

    def _note_verdict(self, accepted: bool, error: str) -> None:  # noqa: FBT001 - a callback
        if self._now is None:
            return
        if accepted:
            self._note_registered(self._now)
        else:
            self._now.refusal = error or "no reason given"
        self._signal.wake()

    def _note_registered(self, now: Generation) -> None:
        now.registered = True
        now.streams_due = now.streams_before + 1
        self._registrations += 1
        self._last_error = None
        self._touch()
        logs.forget("plugin.registration_failed", self.resource)
        name = now.server.path.name
        logs.emit(
            "plugin.registered",
            resource=self.resource,
            method=now.way,
            generation=now.number,
            socket=name,
        )
        self._around.bus.publish(Registered(self.resource, now.way, now.number, name))

    def _note_failure(self, error: str) -> None:
        self._last_error = error
        self._touch()
        logs.emit_once(
            "plugin.registration_failed", self.resource, resource=self.resource, error=error
        )
        failures = self._retry.failures + 1
        self._around.bus.publish(RegistrationFailed(self.resource, error, failures))

    def _note_bug(self, bug: Exception) -> None:
        self._bug = bug
        self._signal.wake()

    def _note_if_failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._note_bug(error)

    def _undo(self, why: str) -> None:
        if self._now is not None and self._now.invalidated is None:
            self._now.invalidated = why
            logs.emit_once("plugin.invalidated", self.resource, resource=self.resource, why=why)
            self._signal.wake()

    async def _warn_of_others(self) -> None:
        roots = self._around.roots
        both = (roots.device_plugins, roots.plugins_registry)
        for path in await folders.find_foreign(both, self.resource):
            logs.emit_once("plugin.conflict", str(path), resource=self.resource, socket=path)

    def _touch(self) -> None:
        self._since_s = self._loop_s()

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()

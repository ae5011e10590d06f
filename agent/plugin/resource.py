"""One resource from offer to kubelet: generation after generation of servers, each registered.

An attempt is: serve, register, follow until the stream, the socket or kubelet.sock is lost. The old
streams are always closed before the next generation registers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent import logs
from agent.errors import KubeletUnavailableError
from agent.events.plugin import (
    ListPushed,
    PluginConflict,
    Registered,
    RegistrationFailed,
    RegistrationInvalidated,
    RegistrationUnsteady,
    StreamLost,
    StreamOpened,
)
from agent.model.answers import DeviceListing, ListedDevice
from agent.model.plugin_events import PoolServerState
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

MIN_LIFE_S = 0.05
"""After a generation that was invalidated earlier than this, the next one waits first."""
KUBELET_REPLACED = "kubelet.sock was replaced"
EMPTY_LIST_LIMIT_S = 0.25
"""For kubelet to read the empty list of a resource that is removed."""


class ResourcePlugin:
    """Keeps one resource registered, from the first offer until ``retire`` or ``stop``."""

    def __init__(
        self, offer: DeviceListing, context: PluginContext, after: asyncio.Event | None = None
    ) -> None:
        self.resource = offer.resource
        self.finished = asyncio.Event()
        """Set by the caller of ``run`` after it ended."""
        self._context = context
        self._after = after
        self._wakeup = Wakeup()
        self._device_list = DeviceList(self._wakeup, self)
        self._device_list.publish(offer.devices, offer.seen_at)
        self._retry = Retry()
        self._hinted = asyncio.Event()
        """Set when files in kubelet's folders may have changed since they were last checked."""
        self._current: Generation | None = None
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
        """End with an empty list: the resource is removed."""
        self._empty_first = True
        self.stop()

    def stop(self) -> None:
        """End without an empty list: kubelet keeps the capacity for the next registration."""
        self._ending = True
        self._retry.hint()
        self._wakeup.wake()

    def kubelet_appeared(self) -> None:
        """kubelet.sock was created: a new kubelet has no legacy registration of this resource."""
        self._retry.hint()
        self._hinted.set()

    def recheck(self) -> None:
        """Anything may have changed in kubelet's folders."""
        self.kubelet_appeared()

    def socket_changed(self) -> None:
        """The socket's file was created, removed or replaced."""
        self._hinted.set()

    async def _follow_files(self, current: Generation) -> None:
        """Invalidate the generation when its socket or its kubelet.sock is removed or replaced."""
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            await self._check_files(current)

    async def _check_files(self, current: Generation) -> None:
        seen = await folders.look_at(self._context.roots.kubelet_socket)
        if seen is not None and seen != current.kubelet:
            if current.method == "legacy":
                self._invalidate(current, KUBELET_REPLACED)
            else:
                current.kubelet, current.kubelet_since_s = seen, self._loop_s()
                self._wakeup.wake()
        if not await current.server.is_in_place():
            self._invalidate(current, "the socket was removed")

    @property
    def socket(self) -> str | None:
        """Path of the current socket."""
        return str(self._current.server.path) if self._current else None

    def state(self) -> PoolServerState:
        """The state of the registration."""
        current = self._current
        return PoolServerState(
            resource=self.resource,
            registered_by=current.method if current and current.registered else None,
            generation=self._generations,
            stream_live=self._device_list.live,
            socket=self.socket,
            registrations=self._registrations,
            lists_pushed=self._lists_pushed,
            last_error=self._last_error,
            since_s=self._since_s,
            note=self._context.methods.note,
        )

    async def run(self) -> None:
        """Serve until asked to end; re-raises an unexpected exception of an answer."""
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
        """A generation was stable: log the next end of one again."""
        logs.forget(StreamLost, self.resource)
        logs.forget(RegistrationInvalidated, self.resource)
        logs.forget(RegistrationUnsteady, self.resource)

    def _note_short_life(self) -> None:
        """A generation ended soon after its registration; log it if several in a row did."""
        if self._retry.failures >= QUICK_TRIES and not self._ending:
            logs.emit_once(
                RegistrationUnsteady(
                    resource=self.resource, within_s=self._context.limits.steady_s
                ),
                self.resource,
            )

    async def _serve(self) -> bool:
        """Run one generation; returns whether the next may follow at once."""
        self._hinted.clear()
        current = await self._make_generation()
        self._device_list.begin()
        self._current = current
        following = asyncio.create_task(self._follow_files(current))
        following.add_done_callback(self._note_if_failed)
        try:
            await current.server.start()
            await self._register(current)
            return await self._follow(current)
        finally:
            following.cancel()
            if self._empty_first:
                await self._send_empty_list()
            await current.server.close(
                self._device_list.end,
                is_answered=lambda: not current.service.answering,
                is_ended=lambda: not self._device_list.live,
                is_urgent=lambda: self._ending,
            )
            self._current = None
            self._note_change()

    async def _make_generation(self) -> Generation:
        roots = self._context.roots
        way = await folders.choose_method(self._context.methods, roots)
        await self._warn_of_other_plugins()
        kubelet = await folders.require_kubelet_socket(roots) if way == "legacy" else None
        self._generations += 1
        folder = roots.plugins_registry if way == "watcher" else roots.device_plugins
        token = socket_token(self._generations, self._context.process_token)
        service = DevicePluginService(
            self.resource, self._device_list, self._context.answers, self._note_bug
        )
        handshake = RegistrationService(self.resource, self._note_dialled, self._note_verdict)
        path = socket_path(folder, self.resource, token)
        server = PoolServer(path, (service, handshake), self._wakeup)
        now_s = self._loop_s()
        return Generation(self._generations, way, server, service, kubelet, now_s, now_s)

    async def _register(self, current: Generation) -> None:
        if current.method == "watcher":
            await await_verdict(
                self.resource, current, self._context, self._wakeup, lambda: self._is_over(current)
            )
            return
        call = register(
            self._context.roots, self.resource, current.server.path.name, current.service.options
        )
        try:
            is_answered = await self._wakeup.run_unless(lambda: self._is_over(current), call)
        except KubeletUnavailableError:
            if await folders.is_kubelet_served(self._context.roots):
                self._context.methods.legacy_failed()
            raise
        if is_answered:
            self._note_registered(current)
            if not await current.server.is_in_place():
                self._invalidate(current, "the socket was removed")

    async def _follow(self, current: Generation) -> bool:
        missing = f"{self.resource}: registered, but kubelet did not ask for the list"
        while not self._is_over(current):
            await await_within(
                self._wakeup,
                self._context.limits.stream_s,
                missing,
                lambda: self._device_list.opened >= current.streams_due or self._is_over(current),
            )
            await self._wakeup.until(
                lambda: (
                    not self._device_list.live
                    or self._device_list.opened < current.streams_due
                    or self._is_over(current)
                )
            )
            if not self._device_list.live:
                break
        if current.refusal is not None:
            raise KubeletUnavailableError(f"{self.resource}: kubelet refused: {current.refusal}")
        age_s = self._loop_s() - current.began_s
        is_of_kubelet = current.invalidated == KUBELET_REPLACED
        return age_s >= (MIN_LIFE_S if is_of_kubelet else self._context.limits.steady_s)

    def _is_over(self, current: Generation) -> bool:
        return bool(self._ending or self._bug or current.invalidated or current.refusal is not None)

    async def _send_empty_list(self) -> None:
        self._device_list.publish(())
        with suppress(TimeoutError):
            async with asyncio.timeout(EMPTY_LIST_LIMIT_S):
                await self._wakeup.until(
                    lambda: (
                        not self._device_list.live
                        or self._device_list.pushed == self._device_list.sequence
                    )
                )

    def stream_opened(self) -> None:
        """Kubelet opened a stream."""
        self._note_change()
        self._context.bus.publish(
            StreamOpened(resource=self.resource, generation=self._generations)
        )

    def stream_lost(self) -> None:
        """Kubelet's stream ended; kubelet does not open another one by itself."""
        self._note_change()
        lost = StreamLost(resource=self.resource, generation=self._generations)
        self._context.bus.publish(lost, once=self.resource)

    def list_pushed(
        self, sequence: int, devices: tuple[ListedDevice, ...], seen_at: float | None
    ) -> None:
        """A list was sent to kubelet."""
        self._lists_pushed += 1
        healthy = sum(device.healthy for device in devices)
        self._context.bus.publish(
            ListPushed(
                resource=self.resource,
                healthy=healthy,
                unhealthy=len(devices) - healthy,
                sequence=sequence,
                seen_at=seen_at,
            )
        )

    def _note_dialled(self) -> None:
        if self._current is not None:
            self._current.dialled = True
            self._context.methods.connected()
            self._current.streams_before = self._device_list.opened
            self._wakeup.wake()

    def _note_verdict(self, accepted: bool, error: str) -> None:  # noqa: FBT001 - a callback
        if self._current is None:
            return
        if accepted:
            self._note_registered(self._current)
        else:
            self._current.refusal = error or "no reason given"
        self._wakeup.wake()

    def _note_registered(self, current: Generation) -> None:
        current.registered = True
        current.streams_due = current.streams_before + 1
        self._registrations += 1
        self._last_error = None
        self._note_change()
        logs.forget(RegistrationFailed, self.resource)
        self._context.bus.publish(
            Registered(
                resource=self.resource,
                method=current.method,
                generation=current.number,
                socket=current.server.path.name,
            )
        )

    def _note_failure(self, error: str) -> None:
        self._last_error = error
        self._note_change()
        failed = RegistrationFailed(resource=self.resource, error=error)
        self._context.bus.publish(failed, once=self.resource)

    def _note_bug(self, bug: Exception) -> None:
        self._bug = bug
        self._wakeup.wake()

    def _note_if_failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._note_bug(error)

    def _invalidate(self, current: Generation, why: str) -> None:
        if current.invalidated is None:
            current.invalidated = why
            logs.emit_once(RegistrationInvalidated(resource=self.resource, why=why), self.resource)
            self._wakeup.wake()

    async def _warn_of_other_plugins(self) -> None:
        roots = self._context.roots
        both = (roots.device_plugins, roots.plugins_registry)
        for path in await folders.find_foreign(both, self.resource):
            logs.emit_once(PluginConflict(resource=self.resource, socket=str(path)), str(path))

    def _note_change(self) -> None:
        self._since_s = self._loop_s()

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()

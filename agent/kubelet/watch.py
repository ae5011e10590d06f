"""Watches kubelet's folders by inotify, and publishes what changes there as bus events."""

from __future__ import annotations

from typing import Self

from agent import logs
from agent.bus import Bus
from agent.events.host import WatchUnavailable
from agent.inotify import DirectoryWatch, EntryChanged, LookAgain, log_unwatched
from agent.kubelet.events import (
    CheckpointChanged,
    KubeletSocketAppeared,
    LockFilesChanged,
    PluginFoldersChanged,
    PluginSocketChanged,
)
from agent.roots import LOCK_FOLDER, Roots
from agent.tasks import Retry, keep_running


class KubeletWatch:
    """An async context manager; watches from entering on, and ``run`` publishes the events.

    The folders may be missing, and may be created and removed. If the host allows no further watch,
    that is logged once and tried again; then one PluginFoldersChanged replaces all missed events.
    """

    def __init__(self, roots: Roots, bus: Bus) -> None:
        self._roots = roots
        self._bus = bus
        self._failed = log_unwatched(roots.kubelet)
        folders = (roots.device_plugins, roots.plugins_registry)
        self._watch = DirectoryWatch(
            (*folders, *(folder / LOCK_FOLDER for folder in folders)),
            purpose="watch of kubelet's folders",
        )
        self._is_open = False

    async def __aenter__(self) -> Self:
        try:
            await self._watch.open()
            self._is_open = True
        except OSError as error:
            self._failed(error, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    async def run(self) -> None:
        """Publish events until cancelled."""
        await keep_running(self._follow, expected=(OSError,), retry=Retry(), failed=self._failed)

    async def _follow(self) -> None:
        if not self._is_open:
            await self._watch.open()
            self._is_open = True
            logs.forget(WatchUnavailable, str(self._roots.kubelet))
            self._bus.publish(PluginFoldersChanged())
        try:
            async for change in self._watch:
                event = self._event(change)
                if event is not None:
                    self._bus.publish(event)
        finally:
            self._close()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._watch.close()

    def _event(self, change: EntryChanged | LookAgain) -> object | None:
        if isinstance(change, LookAgain):
            return PluginFoldersChanged()
        if change.path == self._roots.kubelet_socket:
            return KubeletSocketAppeared() if change.present else None
        if change.path.parent.name == LOCK_FOLDER:
            return LockFilesChanged()
        if change.path == self._roots.kubelet_checkpoint:
            return CheckpointChanged()
        name = change.path.name
        if not name.endswith(".sock") or name.startswith("."):
            return None
        return PluginSocketChanged(change.path)

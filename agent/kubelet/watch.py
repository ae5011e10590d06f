"""Kubelet's folders, followed without polling: what happens there becomes hints on the bus."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from agent.bus import Bus
from agent.host.inotify import DirectoryWatch, EntryChanged, LookAgain
from agent.kubelet.hints import (
    KubeletSocketAppeared,
    KubeletSocketVanished,
    PluginFoldersChanged,
    PluginSocketGone,
)
from agent.roots import Roots


class KubeletWatch:
    """A context manager that watches from entering on; ``run`` publishes what it sees.

    The folders may be missing, and may come and go.
    """

    def __init__(self, roots: Roots, bus: Bus) -> None:
        self._roots = roots
        self._bus = bus
        self._watch = DirectoryWatch((roots.device_plugins, roots.plugins_registry))

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._watch.__exit__(kind, error, traceback)

    async def run(self) -> None:
        """Publish hints until cancelled."""
        async for change in self._watch:
            hint = self._hint(change)
            if hint is not None:
                self._bus.publish(hint)

    def _hint(self, change: EntryChanged | LookAgain) -> object | None:
        if isinstance(change, LookAgain):
            return PluginFoldersChanged()
        if change.path == self._roots.kubelet_socket:
            return KubeletSocketAppeared() if change.present else KubeletSocketVanished()
        name = change.path.name
        if change.present or not name.endswith(".sock") or name.startswith("."):
            return None
        return PluginSocketGone(change.path)

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.bus import Bus
from agent.kubelet.events import (
    KubeletSocketAppeared,
    PluginFoldersChanged,
    PluginSocketChanged,
)
from agent.kubelet.watch import KubeletWatch
from agent.roots import Roots

EVENTS = (KubeletSocketAppeared, PluginFoldersChanged, PluginSocketChanged)


class Events:
    """The events published so far."""

    def __init__(self, bus: Bus) -> None:
        self.seen: list[object] = []
        self._came = asyncio.Event()
        for kind in EVENTS:
            bus.on(kind, self._note)

    def _note(self, event: Any) -> None:  # noqa: ANN401 - any of them
        self.seen.append(event)
        self._came.set()

    async def until(self, *expected: object) -> None:
        """Wait for exactly these events, then forget them."""
        async with asyncio.timeout(10):
            while len(self.seen) < len(expected):
                self._came.clear()
                await self._came.wait()
        assert tuple(self.seen) == expected
        self.seen.clear()


@asynccontextmanager
async def watching(roots: Roots) -> AsyncIterator[Events]:
    bus = Bus()
    async with KubeletWatch(roots, bus) as watch, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        yield Events(bus)
        task.cancel()


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


async def test_kubelet_sock_is_reported_whenever_it_is_created(roots: Roots) -> None:
    async with watching(roots) as events:
        bind(roots.kubelet_socket)
        await events.until(KubeletSocketAppeared())
        roots.kubelet_socket.unlink()
        bind(roots.kubelet_socket)
        await events.until(KubeletSocketAppeared())


async def test_sockets_are_reported_when_they_are_created_removed_or_replaced_and_other_files_never(
    roots: Roots,
) -> None:
    roots.plugins_registry.mkdir()
    async with watching(roots) as events:
        for folder in (roots.device_plugins, roots.plugins_registry):
            for name in (".x.sock", "kubelet_internal_checkpoint"):
                (folder / name).touch()
                (folder / name).unlink()
            socket_file = folder / "x.sock"
            bind(socket_file)
            (folder / "other").touch()
            (folder / "other").rename(socket_file)
            socket_file.unlink()
            await events.until(*(PluginSocketChanged(socket_file),) * 3)


async def test_folders_that_are_created_or_removed_are_reported(roots: Roots) -> None:
    async with watching(roots) as events:
        roots.plugins_registry.mkdir()
        await events.until(PluginFoldersChanged())
        shutil.rmtree(roots.plugins_registry)
        await events.until(PluginFoldersChanged())
        bind(roots.kubelet_socket)
        await events.until(KubeletSocketAppeared())

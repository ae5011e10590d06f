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
    KubeletSocketVanished,
    PluginFoldersChanged,
    PluginSocketChanged,
)
from agent.kubelet.watch import KubeletWatch
from agent.roots import Roots

HINTS = (KubeletSocketAppeared, KubeletSocketVanished, PluginFoldersChanged, PluginSocketChanged)


class Hints:
    """The hints published so far."""

    def __init__(self, bus: Bus) -> None:
        self.seen: list[object] = []
        self._came = asyncio.Event()
        for kind in HINTS:
            bus.on(kind, self._note)

    def _note(self, hint: Any) -> None:  # noqa: ANN401 - any of the hints
        self.seen.append(hint)
        self._came.set()

    async def until(self, *diagnose: object) -> None:
        """Wait for exactly these hints, then forget them."""
        async with asyncio.timeout(10):
            while len(self.seen) < len(diagnose):
                self._came.clear()
                await self._came.wait()
        assert tuple(self.seen) == diagnose
        self.seen.clear()


@asynccontextmanager
async def watching(roots: Roots) -> AsyncIterator[Hints]:
    bus = Bus()
    async with KubeletWatch(roots, bus) as watch, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        yield Hints(bus)
        task.cancel()


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


async def test_kubelet_sock_is_told_as_it_comes_and_goes(roots: Roots) -> None:
    async with watching(roots) as diagnose:
        bind(roots.kubelet_socket)
        await diagnose.until(KubeletSocketAppeared())
        roots.kubelet_socket.unlink()
        await diagnose.until(KubeletSocketVanished())


async def test_sockets_are_told_as_they_come_go_or_lose_their_name_and_other_files_never(
    roots: Roots,
) -> None:
    roots.plugins_registry.mkdir()
    async with watching(roots) as diagnose:
        for folder in (roots.device_plugins, roots.plugins_registry):
            for name in (".x.sock", "kubelet_internal_checkpoint"):
                (folder / name).touch()
                (folder / name).unlink()
            socket_file = folder / "x.sock"
            bind(socket_file)
            (folder / "other").touch()
            (folder / "other").rename(socket_file)
            socket_file.unlink()
            await diagnose.until(*(PluginSocketChanged(socket_file),) * 3)


async def test_folders_that_come_and_go_are_told(roots: Roots) -> None:
    async with watching(roots) as diagnose:
        roots.plugins_registry.mkdir()
        await diagnose.until(PluginFoldersChanged())
        shutil.rmtree(roots.plugins_registry)
        await diagnose.until(PluginFoldersChanged())
        bind(roots.kubelet_socket)
        await diagnose.until(KubeletSocketAppeared())

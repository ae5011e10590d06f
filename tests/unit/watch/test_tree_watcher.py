"""A laid-out tree is followed whole: folders that come unseen are seen all the same."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asyncinotify import Inotify, Mask, Watch

from agent.bus import Bus
from agent.model.events import HostChanged
from agent.roots import Roots
from agent.watch import tree_watcher as tree
from tests.support.log_lines import LogLines

PATIENCE_S = 60.0
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    for folder in ("sys/devices", "dev", "proc/net"):
        (tmp_path / folder).mkdir(parents=True)
    return Roots(tmp_path)


def overflow(noise: Path) -> None:
    """Make more events than the kernel keeps; equal ones in a row would count as one."""
    for _ in range(int(QUEUE.read_text())):
        noise.touch()
        noise.unlink()


@asynccontextmanager
async def followed(roots: Roots, bus: Bus) -> AsyncIterator[asyncio.Task[None]]:
    """The tree being followed, from the first hint on."""
    with bus.subscribe(HostChanged) as diagnose:
        following = asyncio.create_task(tree.follow_tree(roots, bus))
        async with asyncio.timeout(PATIENCE_S):
            await diagnose.take()
            yield following
    following.cancel()


async def test_a_change_in_a_folder_that_was_created_later_is_a_hint(roots: Roots) -> None:
    bus = Bus()
    async with followed(roots, bus):
        with bus.subscribe(HostChanged) as diagnose:
            (roots.sys / "devices/late").mkdir()
            await diagnose.take()
        with bus.subscribe(HostChanged) as diagnose:
            (roots.sys / "devices/late/vendor").write_text("0x8086")
            assert (await diagnose.take()).touched is None


async def test_a_folder_that_is_created_while_its_parent_is_being_watched_is_watched_too(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = roots.sys / "devices/late"
    add_watch = Inotify.add_watch

    def create(inotify: Inotify, path: os.PathLike[Any] | bytes | str, mask: Mask) -> Watch:
        if path == str(roots.sys / "devices"):
            late.mkdir()
        return add_watch(inotify, path, mask)

    monkeypatch.setattr(Inotify, "add_watch", create)
    bus = Bus()
    async with followed(roots, bus):
        with bus.subscribe(HostChanged) as diagnose:
            (late / "vendor").write_text("0x8086")
            await diagnose.take()


async def test_a_folder_created_in_a_folder_that_replaced_another_is_watched(roots: Roots) -> None:
    bus = Bus()
    async with followed(roots, bus):
        for name in ("first", "second"):
            with bus.subscribe(HostChanged) as diagnose:
                (roots.sys / "devices" / name).mkdir()
                await diagnose.take()
            with bus.subscribe(HostChanged) as diagnose:
                (roots.sys / "devices" / name / "vendor").write_text("0x8086")
                await diagnose.take()
            with bus.subscribe(HostChanged) as diagnose:
                shutil.rmtree(roots.sys / "devices" / name)
                await diagnose.take()


async def test_folders_of_iommu_groups_are_not_watched(roots: Roots, log_lines: LogLines) -> None:
    for group in range(9):
        (roots.sys / f"kernel/iommu_groups/{group}/devices").mkdir(parents=True)
    async with followed(roots, Bus()):
        (watching,) = log_lines.fields("host.watching")
    assert watching["folders"] == 4, "sys, sys/devices, dev, proc/net"


async def test_folders_that_were_created_while_events_were_lost_are_watched_too(
    roots: Roots, log_lines: LogLines
) -> None:
    bus = Bus()
    async with followed(roots, bus):
        overflow(roots.dev / "noise")
        late = roots.sys / "devices/late"
        late.mkdir()
        with bus.subscribe(HostChanged) as diagnose:
            while len(log_lines.fields("host.watching")) < 2:
                await diagnose.take()
        with bus.subscribe(HostChanged) as diagnose:
            (late / "vendor").write_text("0x8086")
            await diagnose.take()

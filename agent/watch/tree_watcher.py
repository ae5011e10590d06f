"""Watches a laid-out host by inotify, which reports changes of its plain files.

sysfs sends no inotify events; this is for ``--host-root`` on a tree of files.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

from asyncinotify import Inotify, Mask

from agent import blocking, logs
from agent.bus import Bus
from agent.events.host import HostWatchFailed, HostWatching
from agent.inotify import limit_of, log_unwatched
from agent.model.events import HostChanged
from agent.roots import Roots
from agent.tasks import Retry, keep_running

_MASK = (
    Mask.CREATE
    | Mask.DELETE
    | Mask.MOVED_FROM
    | Mask.MOVED_TO
    | Mask.CLOSE_WRITE
    | Mask.ONLYDIR
    | Mask.DONT_FOLLOW
)
_CAME = Mask.CREATE | Mask.MOVED_TO


async def follow_tree(roots: Roots, bus: Bus) -> None:
    """Publish a hint whenever something below ``sys``, ``dev`` or ``proc`` of the tree changes."""

    async def attempt() -> None:
        await _follow(roots, bus)

    failed = log_unwatched(roots.host)
    await keep_running(attempt, expected=(OSError,), retry=Retry(), failed=failed)


async def _follow(roots: Roots, bus: Bus) -> None:
    with Inotify() as inotify:
        await _watch_all(inotify, roots)
        bus.publish(HostChanged())
        async for _ in _changes(inotify, roots):
            bus.publish(HostChanged())


async def _watch_all(inotify: Inotify, roots: Roots) -> None:
    """Watch the three trees, which takes seconds with thousands of VFs."""
    trees = (roots.sys, roots.dev, roots.proc / "net")
    watched = await blocking.compute("tree", lambda: sum(_watch(inotify, top) for top in trees))
    logs.emit(HostWatching(by="inotify", folders=watched))


async def _changes(inotify: Inotify, roots: Roots) -> AsyncIterator[None]:
    async for event in inotify:
        if event.mask & Mask.Q_OVERFLOW:  # events of new folders may be lost
            await _watch_all(inotify, roots)
        elif event.mask & Mask.ISDIR and event.mask & _CAME and event.path:
            _watch(inotify, event.path)
        if not event.mask & Mask.IGNORED:
            yield


def _watch(inotify: Inotify, top: Path) -> int:
    """Watch every folder of a tree, each before it is listed, so that no change is missed."""
    count, waiting = 0, [os.fspath(top)]
    while waiting:
        folder = waiting.pop()
        try:
            inotify.add_watch(folder, _MASK)
            with os.scandir(folder) as entries:
                waiting.extend(e.path for e in entries if e.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):  # removed or replaced meanwhile
            continue
        except OSError as error:
            logs.emit(HostWatchFailed(folder=folder, error=limit_of(error)))
            break
        count += 1
    return count

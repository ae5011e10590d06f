"""Watches a laid-out host by inotify, which reports changes of its plain files.

sysfs sends no inotify events; this is for ``--host-root`` on a tree of files.
"""

from __future__ import annotations

import os

from asyncinotify import Event, Inotify, Mask, Watch

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
        tree = _Tree(inotify, roots)
        await tree.watch_all()
        bus.publish(HostChanged())
        async for event in inotify:
            if event.mask & Mask.Q_OVERFLOW:  # events of new folders may be lost
                await tree.watch_all()
            elif event.watch:
                tree.update(event.watch, event)
            if not event.mask & Mask.IGNORED:
                bus.publish(HostChanged())


class _Tree:
    """The watched folders. Their names are strings: with 4096 VFs, paths take 8 MiB more."""

    def __init__(self, inotify: Inotify, roots: Roots) -> None:
        self._inotify = inotify
        self._root = roots.host
        self._tops = tuple(map(os.fspath, (roots.sys, roots.dev, roots.proc / "net")))
        self._unread = f"{roots.sys}/kernel"
        """Two folders for each IOMMU group; scans read the links of functions to their groups."""
        self._folders: dict[int, str] = {}
        """By watch descriptor."""

    async def watch_all(self) -> None:
        """Watch the three trees, which takes seconds with thousands of VFs."""
        await blocking.compute("tree", lambda: self._watch(*self._tops))
        logs.emit(HostWatching(by="inotify", folders=len(self._folders)))

    def update(self, watch: Watch, event: Event) -> None:
        """Watch a folder that was created; forget one that was removed."""
        if event.mask & Mask.IGNORED:
            self._folders.pop(watch.wd, None)
        elif event.mask & Mask.ISDIR and event.mask & _CAME and event.name:
            self._watch(f"{self._folders[watch.wd]}/{event.name}")

    def _watch(self, *tops: str) -> None:
        """Watch every folder of trees, each before it is listed, so that no change is missed."""
        waiting = list(tops)
        while waiting:
            folder = waiting.pop()
            if folder == self._unread:
                continue
            try:
                watch = self._inotify.add_watch(folder, _MASK)
                watch.path = self._root
                self._folders[watch.wd] = folder
                with os.scandir(folder) as entries:
                    waiting.extend(e.path for e in entries if e.is_dir(follow_symlinks=False))
            except (FileNotFoundError, NotADirectoryError):  # removed or replaced meanwhile
                continue
            except OSError as error:
                logs.emit(HostWatchFailed(folder=folder, error=limit_of(error)))
                break

"""Watches directories by inotify, also if they are missing, removed, created again or moved.

The parent directories are watched too where a change of the next name matters. This also covers a
case for which inotify sends no event: the removal of a directory in which a process has a bound
socket. One ``LookAgain`` replaces events that were lost because the queue was full (inotify(7),
IN_Q_OVERFLOW).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self, TypeVar

from asyncinotify import Event, Inotify, Mask

from agent import blocking, logs
from agent.attrs_classes import frozen
from agent.errno_advice import with_advice
from agent.events.host import WatchUnavailable

T = TypeVar("T")

_NAMES = Mask.CREATE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE
_SELF = Mask.DELETE_SELF | Mask.MOVE_SELF
_FAR = _SELF | Mask.ONLYDIR | Mask.MASK_ADD
_ON_THE_WAY = _NAMES | _FAR
_DIRECTORY = _ON_THE_WAY | Mask.CLOSE_WRITE
_FILE = Mask.CLOSE_WRITE | _SELF | Mask.MASK_ADD
_LEFT = Mask.DELETE | Mask.MOVED_FROM
_REMEDIES = {
    errno.EMFILE: "raise fs.inotify.max_user_instances, or the process's limit of open files",
    errno.ENOSPC: "raise fs.inotify.max_user_watches",
    errno.ENOMEM: "free some memory",
}
BLIND_S = 10.0
"""How often a directory that exists but cannot be watched is read."""
_WATCH_DIED = _SELF | Mask.IGNORED | Mask.UNMOUNT


@frozen
class EntryChanged:
    """One name in a watched directory changed."""

    path: Path
    present: bool
    """True: created, moved in or written. False: removed or moved away."""


@frozen
class LookAgain:
    """A watched directory was created, removed or replaced, or events were lost."""


class DirectoryWatch:
    """Yields the changes of the entries of ``directories``, from entering on.

    ``files`` adds files whose inode is watched too: for a file that is bind-mounted into a
    container, writes cause no event in its directory. Raises OSError, also while iterating, if the
    host allows no further inotify instance (EMFILE) or watch (ENOSPC).
    """

    def __init__(
        self, directories: Iterable[Path], files: Iterable[Path] = (), *, purpose: str = "watch"
    ) -> None:
        self._purpose = purpose
        """Names the thread in which files are read."""
        self._is_blind = False
        """Whether a directory exists but cannot be watched: no event will report a change."""
        self._files = tuple(files)
        self._directories = tuple(dict.fromkeys((*directories, *(f.parent for f in self._files))))
        self._paths: dict[int, list[Path]] = {}
        self._components: frozenset[Path] = frozenset()
        self._targets: tuple[int | None, ...] = ()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._inotify = opened.enter_context(Inotify())
            self._refresh()
            opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._inotify.close()

    async def open(self) -> None:
        """Enter in a thread, for directories whose file system may hang."""
        await self._off_loop(self.__enter__, DirectoryWatch.close)

    def close(self) -> None:
        """Stop watching."""
        self._inotify.close()

    async def __aiter__(self) -> AsyncIterator[EntryChanged | LookAgain]:
        while True:
            event = await self._next_event()
            if event is None:
                await self._off_loop(self._refresh)
                yield LookAgain()
                continue

            def look(event: Event = event) -> list[EntryChanged | LookAgain]:
                return list(self._changes(event))

            changes = await self._off_loop(look) if self._touches_files(event) else look()
            for change in changes:
                yield change

    async def _next_event(self) -> Event | None:
        """The next event; None = a directory that cannot be watched is due to be read."""
        try:
            async with asyncio.timeout(BLIND_S if self._is_blind else None):
                return await self._inotify.get()
        except TimeoutError:
            return None

    async def _off_loop(
        self, work: Callable[[], T], undo: Callable[[T], object] | None = None
    ) -> T:
        path = ", ".join(map(str, self._directories))
        return await blocking.call(self._purpose, path, work, undo=undo)

    def _touches_files(self, event: Event) -> bool:
        """Whether files must be read to interpret an event."""
        if event.mask & (Mask.Q_OVERFLOW | _WATCH_DIED):
            return True
        paths = self._paths.get(event.watch.wd, ()) if event.watch else ()
        return any(path / event.name in self._components for path in paths if event.name)

    def _changes(self, event: Event) -> Iterator[EntryChanged | LookAgain]:
        if Mask.Q_OVERFLOW in event.mask:
            self._refresh()
            yield LookAgain()
            return
        paths = self._paths.get(event.watch.wd, ()) if event.watch else ()
        if event.mask & _WATCH_DIED:
            if paths:
                yield from self._after_death(paths)
            return
        named = [path / event.name for path in paths] if event.name else list(paths)
        if self._components.intersection(named) and self._refresh():
            yield LookAgain()
        for path in named:
            if path.parent in self._directories:
                yield EntryChanged(path, present=not event.mask & _LEFT)

    def _after_death(self, paths: Iterable[Path]) -> Iterator[EntryChanged | LookAgain]:
        if self._refresh():
            yield LookAgain()
        for path in paths:
            if path in self._files:
                yield EntryChanged(path, present=_exists(path))

    def _refresh(self) -> bool:
        """Update all watches, from the root down so that no change is missed.

        Returns whether one of the directories is another one than before.
        """
        before = set(self._paths)
        self._paths = {}
        components = set(self._files)
        for directory in self._directories:
            for literal in _with_links_resolved(directory):
                for path, below in _way_to(literal):
                    self._add_if_possible(path, _ON_THE_WAY if _may_change(below) else _FAR)
                components.update((literal, *literal.parents))
        self._is_blind = False
        targets = tuple(self._watch_target(directory) for directory in self._directories)
        for file in self._files:
            self._add_if_possible(file, _FILE)
        for watch in self._inotify.watches:
            if watch.wd in before - set(self._paths):
                with suppress(OSError):  # the directory was removed, and the watch with it
                    self._inotify.rm_watch(watch)
        self._components = frozenset(components)
        changed, self._targets = targets != self._targets, targets
        return changed

    def _watch_target(self, directory: Path) -> int | None:
        try:
            return self._add(directory, _DIRECTORY)
        except OSError as error:
            if error.errno in _REMEDIES:
                raise
            self._is_blind = True
            return None

    def _add_if_possible(self, path: Path, mask: Mask) -> None:
        try:
            self._add(path, mask)
        except OSError as error:
            if error.errno in _REMEDIES:
                raise

    def _add(self, path: Path, mask: Mask) -> int | None:
        """Watch a path; returns the watch descriptor, which is the same for the same inode.

        None if the path does not exist; the watches of its parents report its creation. Raises
        OSError if it exists and cannot be watched.
        """
        try:
            wd = self._inotify.add_watch(path, mask).wd
        except (FileNotFoundError, NotADirectoryError):
            return None
        paths = self._paths.setdefault(wd, [])
        if path not in paths:
            paths.append(path)
        return wd


def limit_of(error: BaseException) -> str:
    """The text of an error; for an exhausted limit of inotify(7), with the remedy."""
    return with_advice(error, _REMEDIES)


def log_unwatched(folder: Path) -> Callable[[BaseException, int], None]:
    """For :func:`agent.tasks.keep_running`: log once that changes in ``folder`` go unnoticed."""

    def failed(error: BaseException, _: int) -> None:
        logs.emit_once(WatchUnavailable(folder=str(folder), error=limit_of(error)), str(folder))

    return failed


def _way_to(directory: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Each directory from the root to the path, with the two path components that follow it."""
    way = (*reversed(directory.parents), directory)
    for place in range(len(way) - 1):
        yield way[place], way[place + 1 : place + 3]


def _may_change(below: tuple[Path, ...]) -> bool:
    """Whether changes of names in a directory matter, given the components that follow it.

    They matter in the parent of the watched directory, where the next component is a link, and
    where a component is missing. Elsewhere the directory's own move is enough: a busy directory
    such as /tmp must not cause events.
    """
    if len(below) == 1:
        return True
    try:
        return below[0].is_symlink() or not all(path.exists() for path in below)
    except OSError:  # it may become readable
        return True


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it cannot be checked, and may exist
        return True


def _with_links_resolved(directory: Path) -> tuple[Path, ...]:
    """The directory as given, and with all links resolved if that differs."""
    try:
        resolved = directory.resolve()
    except (OSError, RuntimeError):  # the latter for a circle of links, before Python 3.13
        return (directory,)
    return (directory,) if resolved == directory else (directory, resolved)

"""Directories followed by inotify, whatever becomes of them: the source of hints about files.

A directory may be missing, removed, made anew, moved or reached through a link: the folders on
the way to it are watched too, for the next name where that can matter. That also covers what
inotify says nothing about: the removal of a directory in which a process still has a bound socket.
Events that a full queue lost (inotify(7), IN_Q_OVERFLOW) become one ``LookAgain``.
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
"""How often a directory that is there but cannot be watched is looked at."""
_WATCH_DIED = _SELF | Mask.IGNORED | Mask.UNMOUNT


@frozen
class EntryChanged:
    """Something happened to one name in a followed directory."""

    path: Path
    present: bool
    """True: made, moved in or written. False: removed or moved away."""


@frozen
class LookAgain:
    """A followed directory came, went or was replaced, or events were lost: look at everything."""


class DirectoryWatch:
    """Yields what happens to the entries of ``directories``, from entering on.

    ``files`` adds single files whose own inode is watched too: one that is bind-mounted into a
    container is rewritten without its directory being told. Raises OSError, also while it is
    followed, where the host allows no further inotify instance (EMFILE) or watch (ENOSPC).
    """

    def __init__(
        self, directories: Iterable[Path], files: Iterable[Path] = (), *, purpose: str = "watch"
    ) -> None:
        self._purpose = purpose
        """Names the thread in which files are looked at."""
        self._is_blind = False
        """Whether a directory is there but cannot be watched: no event tells when it can."""
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
        """As entering it, but off the loop: for folders whose file system may hang."""
        await self._off_loop(self.__enter__, DirectoryWatch.close)

    def close(self) -> None:
        """End it."""
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
        """The next event; None = it is time to look at a directory that could not be watched."""
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
        """Whether it takes a look at files to say what an event means."""
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
        """Put watches where they belong now, from the root down so that nothing slips between.

        Tells whether one of the directories is another than before.
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
                with suppress(OSError):  # its directory is gone, and the watch with it
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
        """Watch a path; the kernel's number of the watch is the same for the same inode.

        None where there is nothing to watch, which the folders on the way to it will tell. Raises
        OSError where there is something.
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
    """What inotify ran out of, with the remedy (inotify(7)); other errors as they are."""
    return with_advice(error, _REMEDIES)


def log_unwatched(folder: Path) -> Callable[[BaseException, int], None]:
    """For :func:`agent.tasks.keep_running`: say once that changes in ``folder`` go unnoticed."""

    def failed(error: BaseException, _: int) -> None:
        logs.emit_once(WatchUnavailable(folder=str(folder), error=limit_of(error)), str(folder))

    return failed


def _way_to(directory: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Each folder on the way from the root, with the two path components that follow it."""
    way = (*reversed(directory.parents), directory)
    for place in range(len(way) - 1):
        yield way[place], way[place + 1 : place + 3]


def _may_change(below: tuple[Path, ...]) -> bool:
    """Whether a folder's names matter, given the components that follow it on the way.

    A folder far above tells by its own move that the way has changed. Its names matter only right
    above the directory, where a link leads on, and where something is missing: a busy folder such
    as /tmp must not wake anybody.
    """
    if len(below) == 1:
        return True
    try:
        return below[0].is_symlink() or not all(path.exists() for path in below)
    except OSError:  # what may not be looked at may come to be seen
        return True


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it is there, as far as can be seen
        return True


def _with_links_resolved(directory: Path) -> tuple[Path, ...]:
    """The directory as named and as it is reached, if links make a difference."""
    try:
        resolved = directory.resolve()
    except (OSError, RuntimeError):  # the latter for a circle of links, before Python 3.13
        return (directory,)
    return (directory,) if resolved == directory else (directory, resolved)

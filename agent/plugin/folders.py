"""All that is done in kubelet's folders while the agent runs, off the loop and within limits.

The only place where the fault of such a folder (read-only, unsearchable, stale, a circle of links,
a dead mount, no thread) becomes what the rest knows: KubeletUnavailableError, which is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from agent import blocking, logs
from agent.errno_advice import with_advice
from agent.errors import KubeletUnavailableError
from agent.plugin.registration import RegistrationMethod, RegistrationMethods
from agent.roots import Roots
from agent.transport import unix_socket as sockets
from agent.transport.unix_socket import BoundSocket, Identity

REMOVE_LIMIT_S = 0.5
"""For the removal of a socket at the end of its server: the process must end soon."""

T = TypeVar("T")


async def choose_method(ways: RegistrationMethods, roots: Roots) -> RegistrationMethod:
    """The way to register now; ``auto`` is the watcher's where its folder exists and is watched.

    A folder that cannot be looked at counts as missing, since kubelet cannot follow it either.
    """
    if ways.mode != "auto":
        return ways.mode
    if ways.is_unwatched:
        return "legacy"
    folder = roots.plugins_registry
    is_there = await _or_none(folder, folder.is_dir)
    return "watcher" if is_there else "legacy"


async def require_kubelet_socket(roots: Roots) -> Identity:
    """Which file kubelet.sock is now; raises KubeletUnavailableError while there is none."""
    path = roots.kubelet_socket
    identity = await _call(path, lambda: sockets.look_at(path))
    if identity is None:
        raise KubeletUnavailableError(f"{path}: no such socket")
    return identity


async def is_kubelet_served(roots: Roots) -> bool:
    """Whether a process listens on kubelet.sock."""
    path = roots.kubelet_socket
    return bool(await _or_none(path, lambda: sockets.is_listening(path)))


async def look_at(path: Path) -> Identity | None:
    """Which file is at ``path``; None if there is none or that cannot be found out."""
    return await _or_none(path, lambda: sockets.look_at(path))


async def bind(path: Path) -> BoundSocket:
    """A listening socket at ``path``; raises KubeletUnavailableError if it cannot be made."""

    def work() -> BoundSocket:
        try:
            return sockets.bind_socket(path)
        except OSError as error:
            text = f"{error.filename or path}: {error.strerror or error}"
            raise KubeletUnavailableError(text) from error

    return await _call(path, work, undo=_take_back)


async def is_in_place(bound: BoundSocket) -> bool:
    """Whether a socket's path still leads to it; yes where that cannot be found out."""

    def look() -> bool:
        return sockets.look_at(bound.path) == bound.identity

    return await _or_none(bound.path, look) is not False


async def remove(bound: BoundSocket) -> None:
    """Remove a socket's file, unless another file took its place.

    Never raises for the folder's faults: the server of the socket ends all the same, and the next
    start removes what is left.
    """
    await _or_none(bound.path, bound.unlink, limit_s=REMOVE_LIMIT_S)


async def remove_dead(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Remove the sockets of earlier processes of ours, as far as that can be done."""
    removed: list[Path] = []
    for folder in folders:

        def work(folder: Path = folder) -> tuple[Path, ...]:
            return sockets.remove_dead((folder,))

        removed += await _or_none(folder, work) or ()
    return tuple(removed)


async def find_foreign(folders: Iterable[Path], resource: str) -> tuple[Path, ...]:
    """Sockets of the Go plugin on which it still serves ``resource``."""
    live: list[Path] = []
    for folder in folders:

        def work(folder: Path = folder) -> tuple[Path, ...]:
            return sockets.find_foreign((folder,), resource)

        live += await _or_none(folder, work) or ()
    return tuple(live)


def _take_back(bound: BoundSocket) -> None:
    """Close a socket that came too late; for a thread."""
    bound.listener.close()
    bound.unlink()


def _folder(path: Path) -> Path:
    """The folder of kubelet's that ``path`` is, or is in."""
    return path.parent if path.suffix == ".sock" else path


async def _call(
    path: Path,
    work: Callable[[], T],
    *,
    limit_s: float = blocking.LIMIT_S,
    undo: Callable[[T], object] | None = None,
) -> T:
    """The result of ``work``, in the thread of its folder; faults as KubeletUnavailableError."""
    folder = _folder(path)
    try:
        result = await blocking.call(folder.name, path, work, limit_s=limit_s, undo=undo)
    except OSError as error:
        raise KubeletUnavailableError(f"{path}: {with_advice(error)}") from error
    logs.forget("plugin.folder_unusable", str(folder))
    return result


async def _or_none(
    path: Path, work: Callable[[], T], *, limit_s: float = blocking.LIMIT_S
) -> T | None:
    """The same for what can be done without: a fault is said once, and the result is None."""
    try:
        return await _call(path, work, limit_s=limit_s)
    except KubeletUnavailableError as error:
        folder = str(_folder(path))
        logs.emit_once("plugin.folder_unusable", folder, folder=folder, error=str(error))
        return None

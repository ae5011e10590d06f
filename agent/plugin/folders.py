"""Access to kubelet's folders while the agent runs, in threads and within limits.

Errors of such a folder (read-only, unsearchable, stale, a loop of links, a dead mount, no thread)
become KubeletUnavailableError here, and only here; callers try again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from agent import blocking, logs
from agent.errno_advice import with_advice
from agent.errors import KubeletUnavailableError
from agent.events.plugin import PluginFolderUnusable
from agent.plugin.registration import RegistrationMethod, RegistrationMethods
from agent.roots import Roots
from agent.transport import unix_socket as sockets
from agent.transport.unix_socket import BoundSocket, Identity

REMOVE_LIMIT_S = 0.5
"""For removing a socket when its server ends: the process must end soon."""

T = TypeVar("T")


async def choose_method(methods: RegistrationMethods, roots: Roots) -> RegistrationMethod:
    """The method to use now; ``auto`` is the watcher if its folder exists and kubelet watches it.

    A folder that cannot be read counts as missing, since kubelet cannot read it either.
    """
    if methods.mode != "auto":
        return methods.mode
    if methods.is_unwatched:
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
    """Which file is at ``path``; None if there is none, or if it cannot be read."""
    return await _or_none(path, lambda: sockets.look_at(path))


async def bind(path: Path) -> BoundSocket:
    """A listening socket at ``path``; raises KubeletUnavailableError if it cannot be made."""

    def work() -> BoundSocket:
        try:
            return sockets.bind_socket(path)
        except OSError as error:
            text = f"{error.filename or path}: {error.strerror or error}"
            raise KubeletUnavailableError(text) from error

    return await _call(path, work, undo=BoundSocket.discard)


async def is_in_place(bound: BoundSocket) -> bool:
    """Whether a socket's path still leads to it; True if the folder cannot be read."""

    def look() -> bool:
        return sockets.look_at(bound.path) == bound.identity

    return await _or_none(bound.path, look) is not False


async def remove(bound: BoundSocket, limit_s: float = REMOVE_LIMIT_S) -> None:
    """Remove a socket's file, unless another file took its place.

    Does not raise for errors of the folder: the server ends anyway, and the next start removes the
    file.
    """
    await _or_none(bound.path, bound.unlink, limit_s=limit_s)


async def remove_dead(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Remove the sockets that earlier processes of the agent left, as far as possible."""
    removed: list[Path] = []
    for folder in folders:

        def work(folder: Path = folder) -> tuple[Path, ...]:
            return sockets.remove_dead((folder,))

        removed += await _or_none(folder, work) or ()
    return tuple(removed)


async def find_foreign(folders: Iterable[Path], resource: str) -> tuple[Path, ...]:
    """Sockets on which the Go plugin still serves ``resource``."""
    live: list[Path] = []
    for folder in folders:

        def work(folder: Path = folder) -> tuple[Path, ...]:
            return sockets.find_foreign((folder,), resource)

        live += await _or_none(folder, work) or ()
    return tuple(live)


def _folder(path: Path) -> Path:
    """The kubelet folder that ``path`` is, or is in."""
    return path.parent if path.suffix == ".sock" else path


async def _call(
    path: Path,
    work: Callable[[], T],
    *,
    limit_s: float = blocking.LIMIT_S,
    undo: Callable[[T], object] | None = None,
) -> T:
    """Run ``work`` in the thread of its folder; raises KubeletUnavailableError."""
    folder = _folder(path)
    try:
        result = await blocking.call(folder.name, path, work, limit_s=limit_s, undo=undo)
    except OSError as error:
        raise KubeletUnavailableError(f"{path}: {with_advice(error)}") from error
    logs.forget(PluginFolderUnusable, str(folder))
    return result


async def _or_none(
    path: Path, work: Callable[[], T], *, limit_s: float = blocking.LIMIT_S
) -> T | None:
    """The same for optional work: an error is logged once, and the result is None."""
    try:
        return await _call(path, work, limit_s=limit_s)
    except KubeletUnavailableError as error:
        folder = str(_folder(path))
        logs.emit_once(PluginFolderUnusable(folder=folder, error=str(error)), folder)
        return None

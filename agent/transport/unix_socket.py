"""Socket files: their names, their creation and removal, and whether one is still ours.

The only code that creates or removes sockets in kubelet's folders.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent.attrs_classes import frozen
from agent.errors import SocketPathTooLongError

MAX_PATH_BYTES = 107
"""sun_path has 108 bytes, the last one zero (unix(7))."""
_OURS = re.compile(r"^\.?.+\.g\d+-[0-9a-f]{8}\.sock$")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_DIGEST_LENGTH = 12
_TURNS_TO_ACCEPT = 2
"""Turns of the loop from accept(2) to the protocol, and one more."""


@frozen
class Identity:
    """Identifies the file that a path leads to; a new file under the same path differs."""

    device: int
    inode: int
    modified_ns: int


def identify(path: Path) -> Identity | None:
    """The identity of the file at ``path``; None if there is none, or if it cannot be read."""
    try:
        return look_at(path)
    except OSError:
        return None


def look_at(path: Path) -> Identity | None:
    """The identity of the file at ``path``; None if there is none.

    Raises OSError if that is unknown: the files of a folder that cannot be searched still exist.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Identity(status.st_dev, status.st_ino, status.st_mtime_ns)


def socket_token(generation: int, process_token: str) -> str:
    """Makes a socket's name unique: the generation, and eight hex digits of the process."""
    return f"g{generation}-{process_token}"


def socket_path(folder: Path, resource: str, token: str) -> Path:
    """The path of a resource's socket: ``<prefix>_<name>.<token>.sock``.

    A name that is too long for the folder is cut, and gets a hash of the resource. Raises
    SocketPathTooLongError if not even the hash fits.
    """
    stem = _stem(resource)
    room = _room(folder, token)
    if len(stem) > room:
        import hashlib  # noqa: PLC0415 - its libcrypto takes 2 MiB, and names are seldom so long

        whole = resource.encode(errors="surrogatepass")
        digest = hashlib.sha256(whole).hexdigest()[:_DIGEST_LENGTH]
        kept = room - len(digest) - 1
        stem = f"{stem[:kept]}-{digest}" if kept > 0 else digest
    if len(stem) > room:
        raise SocketPathTooLongError(str(folder / f"{stem}.{token}.sock"), MAX_PATH_BYTES)
    return folder / f"{stem}.{token}.sock"


def _room(folder: Path, token: str) -> int:
    """Bytes left for a socket's stem; a dot precedes its name while it is bound."""
    return MAX_PATH_BYTES - len(os.fsencode(folder)) - len(f"/..{token}.sock")


def require_room(folder: Path) -> None:
    """Raises SocketPathTooLongError if the path of ``folder`` is too long for any socket."""
    token = socket_token(10**6, "0" * 8)
    if _room(folder, token) < _DIGEST_LENGTH:
        digest = "-" * _DIGEST_LENGTH
        raise SocketPathTooLongError(str(folder / f"{digest}.{token}.sock"), MAX_PATH_BYTES)


@frozen
class BoundSocket:
    """A listening socket and the file that leads to it."""

    listener: socket.socket
    path: Path
    identity: Identity

    def is_in_place(self) -> bool:
        """Whether the path still leads to this socket."""
        return identify(self.path) == self.identity

    def unlink(self) -> None:
        """Remove the file, unless another one replaced it."""
        if self.is_in_place():
            self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Close the listener and remove the file; for a socket that was bound after a limit."""
        self.listener.close()
        self.unlink()

    async def stop_accepting(self) -> None:
        """Stop accepting, and finish connections that were accepted; call it before closing.

        If a server closes between accept(2) and the creation of the protocol, asyncio loses the
        connection without closing it: the peer would wait for ever.
        """
        asyncio.get_running_loop().remove_reader(self.listener)
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)


def bind_socket(path: Path) -> BoundSocket:
    """A socket that listens before its name appears; only its owner may connect.

    Kubelet ignores names that start with a dot, so it never connects to a socket that does not
    listen yet. Raises OSError, for example if the folder is missing, or if a starting kubelet
    removed the file at this moment.
    """
    hidden = path.with_name("." + path.name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The mode before the name: bind(2) takes it over, and no link is there to be followed.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(str(hidden))
        listener.listen(socket.SOMAXCONN)
        identity = identify(hidden)
        hidden.rename(path)
    except OSError as error:
        listener.close()
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path.parent)) from error
    if identity is None:
        listener.close()
        raise FileNotFoundError(errno.ENOENT, "removed while it was created", str(path))
    return BoundSocket(listener, path, identity)


def is_listening(path: Path) -> bool:
    """Whether a process listens on a socket file; True if that is unknown."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            answer = probe.connect_ex(str(path))
    except OSError:  # the path is too long, or no descriptor is left
        return True
    return answer not in {errno.ECONNREFUSED, errno.ENOENT}


def remove_dead(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Remove the agent's sockets on which no process listens; returns the removed ones.

    One that cannot be removed stays, and the next start tries again.
    """
    dead = [
        path
        for folder in folders
        for path in _socket_files(folder)
        if _OURS.match(path.name) and not is_listening(path)
    ]
    return tuple(path for path in dead if _remove(path))


def is_served_by_go_plugin(folders: Iterable[Path], resource: str) -> bool:
    """Whether the Go plugin listens on its socket for a resource in one of the folders."""
    paths = (folder / f"{_stem(resource)}.sock" for folder in folders)
    return any(_is_socket(path) and is_listening(path) for path in paths)


def find_foreign(folders: Iterable[Path], resource: str) -> tuple[Path, ...]:
    """The Go plugin's sockets of a resource on which it listens; removes the others if possible."""
    live: list[Path] = []
    for folder in folders:
        path = folder / f"{_stem(resource)}.sock"
        if not _is_socket(path):
            continue
        if is_listening(path):
            live.append(path)
        else:
            _remove(path)
    return tuple(live)


def _remove(path: Path) -> bool:
    """Remove a file; returns whether that succeeded."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _is_socket(path: Path) -> bool:
    """Whether ``path`` is a socket itself; False also if the name is too long for a file."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def _socket_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if _is_socket(path))
    except OSError:
        return []


def _stem(resource: str) -> str:
    """A resource as a file name without slashes, and without a dot at its start."""
    stem = _UNSAFE.sub("_", resource)
    return stem if stem and not stem.startswith(".") else f"_{stem[1:]}"

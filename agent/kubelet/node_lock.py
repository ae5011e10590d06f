"""One agent for each node: a lock where every agent of the node sees it (docs/adr/0004)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from agent import logs
from agent.bus import Bus
from agent.kubelet.hints import PluginFoldersChanged
from agent.roots import Roots

_FOLDER = ".sriov-node-agent"
_FILE = "lock"


class NodeLock:
    """An async context manager that is entered once no other agent serves the node.

    Waiting costs nothing: a thread sleeps in the kernel until the holder releases or dies. Where no
    lock can be had (no folder of kubelet's, or not writable) a warning is logged and the agent
    goes on without. A folder that comes, or is made anew, is locked as soon as it is there.
    """

    def __init__(self, roots: Roots, bus: Bus) -> None:
        self._folders = (roots.device_plugins, roots.plugins_registry)
        self._bus = bus
        self._fd: int | None = None
        self.waiting_for: str | None = None
        """Who holds the node while this one waits."""

    async def __aenter__(self) -> Self:
        while True:
            self._fd = self._open()
            if self._fd is None or _try_lock(self._fd):
                break
            self.waiting_for = _read_holder(self._fd)
            logs.emit("lock.waiting", holder=self.waiting_for, folder=self._folder)
            await _wait_for_lock(self._fd)
            self.waiting_for = None
            if self._is_in_place(self._fd):
                logs.emit("lock.taken", folder=self._folder)
                break
            os.close(self._fd)  # the folder was made anew meanwhile, or the one before it came
        self._sign()
        self._leave = self._bus.on(PluginFoldersChanged, lambda _: self.renew())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()
        if self._fd is not None:
            _write_holder(self._fd, "")
            os.close(self._fd)

    def renew(self) -> None:
        """Lock what is in place now, if that is not what is held; never waits."""
        fd = self._open()
        if fd is None:
            return
        if self._fd is not None and _is_same(self._fd, fd):
            os.close(fd)
            return
        if not _try_lock(fd):
            holder = _read_holder(fd)
            logs.emit_once("lock.lost", holder, holder=holder, folder=self._folder)
            os.close(fd)
            return
        if self._fd is not None:
            os.close(self._fd)
        self._fd = fd
        self._sign()

    def _open(self) -> int | None:
        problem: OSError | None = None
        for folder in self._folders:
            if not folder.is_dir():
                continue
            self._folder = folder
            try:
                return _open_lock(folder)
            except OSError as error:
                problem = error
        logs.emit_once("lock.unavailable", "", error=problem or "kubelet's folders are missing")
        return None

    def _is_in_place(self, fd: int) -> bool:
        """Whether the lock is the one that the next agent would ask for."""
        there = self._open()
        if there is None:
            return True  # nothing better can be had
        try:
            return _is_same(fd, there)
        finally:
            os.close(there)

    def _sign(self) -> None:
        """Say in the file who holds it; the host name is the pod's where there is one."""
        if self._fd is not None:
            logs.forget("lock.unavailable", "")
            _write_holder(self._fd, f"{socket.gethostname()} pid {os.getpid()}\n")


def _open_lock(folder: Path) -> int:
    # In a folder of its own: some kubelets remove every file of device-plugins when they start.
    (folder / _FOLDER).mkdir(mode=0o700, exist_ok=True)
    own = os.open(folder / _FOLDER, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(_FILE, flags, 0o600, dir_fd=own)
    finally:
        os.close(own)


def _is_same(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(fd: int, text: str) -> None:
    with suppress(OSError):  # on a full disk the lock holds, only without a name
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode(), 0)


def _read_holder(fd: int) -> str:
    return os.pread(fd, 256, 0).decode(errors="replace").strip() or "unknown"


async def _wait_for_lock(fd: int) -> None:
    """Lock ``fd``. Closes it if cancelled; the lock then goes as soon as it comes."""
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[None] = loop.create_future()
    # The thread has a descriptor of its own, or one closed here could be another file's by then.
    own_fd = os.dup(fd)

    def block() -> None:
        fcntl.flock(own_fd, fcntl.LOCK_EX)
        os.close(own_fd)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, locked)

    threading.Thread(target=block, name="node-lock", daemon=True).start()
    try:
        await locked
    except asyncio.CancelledError:
        os.close(fd)
        raise


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

"""One agent for each resource of the node: lock files in kubelet's folders (docs/adr/0004)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from asyncio import Event
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from agent import blocking, logs
from agent.attrs_classes import define
from agent.bus import Bus
from agent.errno_advice import with_advice
from agent.events.kubelet import LockAcquired, LockLost, LockUnavailable, LockWaiting
from agent.kubelet.events import LockFilesChanged, PluginFoldersChanged
from agent.model.plugin_events import ResourceLocksChanged, ServerEnded
from agent.plain_files import open_plain
from agent.roots import LOCK_FOLDER, Roots
from agent.tasks import Retry

_SUFFIX = ".lock"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ENCODED = re.compile(r"%([0-9A-F]{2})")
_NAME_MAX = 255
ASK_LIMIT_S = 0.1
"""How long the loop waits for the file system of the folders."""
_HOLDER_MAX_BYTES = 1024


@define
class _Entry:
    """A wanted resource: its lock file, and whether this process may serve it."""

    fd: int | None
    """None = no lock file could be opened; the resource is served without a lock."""
    is_held: bool
    is_reported: bool = False
    """Whether it was logged that this process waits."""


class ResourceLocks:
    """Which resources this process may serve: those whose lock file it has locked.

    A context manager; leaving it releases all locks, so the servers must have ended by then.
    ``want`` sets the resources to lock. ``run`` takes the locks that other processes release, and
    publishes ResourceLocksChanged. A lock that is no longer wanted is released when its server has
    ended (ServerEnded). If no lock file can be opened, the resource is served without a lock, with
    one warning, and the lock is taken as soon as that is possible. Call it only on the loop; no
    call waits for another process.
    """

    _hangs: bool
    """Whether the file system of the folders did not answer at the last check."""

    def __init__(self, roots: Roots, bus: Bus, config_file: Path | None = None) -> None:
        self._folders = (roots.device_plugins, roots.plugins_registry)
        self._bus = bus
        self._signature = _signature(config_file)
        self._wanted: frozenset[str] = frozenset()
        self._entries: dict[str, _Entry] = {}
        self._due = Event()
        self._retry = Retry()
        self._leave = ExitStack()

    def __enter__(self) -> Self:
        on = self._bus.on
        self._leave.callback(on(ServerEnded, self._server_ended))
        self._leave.callback(on(PluginFoldersChanged, lambda _: self._renew()))
        self._leave.callback(on(LockFilesChanged, lambda _: self._retry.hint()))
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.close()
        self._check_folders()
        for resource in tuple(self._entries):
            self._release(resource)

    def want(self, resources: Collection[str]) -> frozenset[str]:
        """Make ``resources`` the wanted ones; returns those that this process may serve now."""
        self._wanted = frozenset(resources)
        self._check_folders()
        for resource, entry in tuple(self._entries.items()):
            if resource not in self._wanted and not entry.is_held:
                self._release(resource)
        for resource in sorted(self._wanted - self._entries.keys()):
            self._entries[resource] = self._take(resource)
        self._plan()
        return frozenset(r for r in self._wanted if self._entries[r].is_held)

    @property
    def waiting(self) -> Mapping[str, str]:
        """The wanted resources that another process serves, with the name of that process."""
        return {
            resource: "unknown" if self._hangs else _read_holder(entry.fd)
            for resource, entry in sorted(self._entries.items())
            if entry.fd is not None and not entry.is_held
        }

    def others(self) -> frozenset[str]:
        """The resources that other processes have locked."""
        found: set[str] = set()
        for folder in self._check_folders():
            with suppress(OSError):
                names = os.listdir(folder / LOCK_FOLDER)  # noqa: PTH208 - names are all it takes
                found.update(self._locked_by_others(folder / LOCK_FOLDER, names))
        return frozenset(found)

    def _locked_by_others(self, folder: Path, names: Collection[str]) -> Iterator[str]:
        own = {_file_name(r) for r, entry in self._entries.items() if entry.is_held}
        for name in names:
            if name.endswith(_SUFFIX) and name not in own:
                resource = _resource_if_locked(folder / name)
                if resource:
                    yield resource

    async def run(self) -> None:
        """Take what other processes release, until cancelled."""
        while True:
            await self._due.wait()
            await self._retry.wait()
            self._check_folders()
            self._try_again()
            self._plan()

    def _check_folders(self) -> tuple[Path, ...]:
        """Check in a thread whether the folders answer, before files there are used on the loop.

        Returns the folders; none while they do not answer: then no lock file is opened, read or
        removed.
        """
        path = ", ".join(map(str, self._folders))
        self._hangs = False
        try:
            blocking.call_now("locks", path, self._touch_folders, limit_s=ASK_LIMIT_S)
        except TimeoutError:
            self._hangs = True
        except OSError:  # no thread can be made
            pass
        return self._usable

    @property
    def _usable(self) -> tuple[Path, ...]:
        return () if self._hangs else self._folders

    def _touch_folders(self) -> None:
        for folder in self._folders:
            with suppress(OSError):
                os.listdir(folder / LOCK_FOLDER)  # noqa: PTH208 - the result is not used

    def _plan(self) -> None:
        """Wake ``run`` while a lock is missing, and only then."""
        if any(entry.fd is None or not entry.is_held for entry in self._entries.values()):
            self._due.set()
        else:
            self._due.clear()
            self._retry.succeeded()

    def _try_again(self) -> None:
        """Try each missing lock once; publish and log what changed."""
        waiting = [(r, e.fd) for r, e in self._entries.items() if not e.is_held]
        taken = [r for r, fd in waiting if fd is not None and self._acquire(r, fd)]
        lost = [r for r, e in tuple(self._entries.items()) if e.fd is None and self._is_lost(r)]
        if taken:
            logs.emit(LockAcquired(resources=tuple(sorted(taken))))
        self._report_waiting()
        if taken or lost:
            self._bus.publish(ResourceLocksChanged())

    def _acquire(self, resource: str, fd: int) -> bool:
        """Try to take a lock for which this process waits; returns whether it has it."""
        if not _try_lock(fd):
            return False
        if self._is_in_place(resource, fd):
            self._entries[resource].is_held = True
            self._sign(resource, fd)
            return True
        # The file was removed by its holder, or the folder was replaced: open the one in place.
        os.close(fd)
        self._entries[resource] = self._take(resource)
        return self._entries[resource].is_held

    def _report_waiting(self) -> None:
        by_holder: dict[str, list[str]] = {}
        for resource, holder in self.waiting.items():
            if not self._entries[resource].is_reported:
                self._entries[resource].is_reported = True
                by_holder.setdefault(holder, []).append(resource)
        for holder, resources in by_holder.items():
            logs.emit(LockWaiting(resources=tuple(resources), holder=holder))

    def _renew(self) -> None:
        """Lock the current files, after kubelet's folders changed."""
        self._retry.hint()
        self._check_folders()
        held = [resource for resource, entry in self._entries.items() if entry.is_held]
        lost = [resource for resource in held if self._is_lost(resource)]
        if lost:
            self._bus.publish(ResourceLocksChanged())
        self._plan()

    def _is_lost(self, resource: str) -> bool:
        """Lock the current file of a served resource; True = another process has locked it."""
        entry = self._entries[resource]
        fd = self._open(resource)
        if fd is None:
            return False
        if entry.fd is not None and _is_same(entry.fd, fd):
            os.close(fd)
            return False
        is_held = _try_lock(fd)
        # The new lock first: a process that waits for the old file must find the new one locked.
        if entry.fd is not None:
            os.close(entry.fd)
        self._entries[resource] = _Entry(fd, is_held=is_held, is_reported=True)
        if is_held:
            self._sign(resource, fd)
        else:
            logs.emit(LockLost(resource=resource, holder=_read_holder(fd)))
        return not is_held

    def _server_ended(self, event: ServerEnded) -> None:
        if event.resource in self._entries and event.resource not in self._wanted:
            self._check_folders()
            self._release(event.resource)

    def _take(self, resource: str) -> _Entry:
        fd = self._open(resource)
        if fd is None:
            return _Entry(None, is_held=True)
        # Its holder may remove the file between open and lock: then it is tried again soon.
        is_held = _try_lock(fd) and self._is_in_place(resource, fd)
        if is_held:
            self._sign(resource, fd)
        return _Entry(fd, is_held=is_held)

    def _release(self, resource: str) -> None:
        """Release a lock, or stop waiting for it; a file is removed while it is still locked."""
        entry = self._entries.pop(resource)
        if entry.fd is None:
            return
        if entry.is_held:
            self._remove(resource, entry.fd)
        os.close(entry.fd)

    def _remove(self, resource: str, fd: int) -> None:
        for folder in self._usable:
            path = folder / LOCK_FOLDER / _file_name(resource)
            with suppress(OSError):
                if os.path.samestat(os.fstat(fd), path.lstat()):
                    path.unlink()
                    return

    def _open(self, resource: str) -> int | None:
        """A descriptor of the lock file, in the first folder where it opens; None = none."""
        path = ", ".join(map(str, self._folders))
        problem: OSError = TimeoutError(errno.ETIMEDOUT, "the file system hangs", path)
        if not self._hangs:
            try:
                return _open_in_thread(self._folders, path, _file_name(resource))
            except OSError as error:
                problem = error
                self._hangs = isinstance(error, TimeoutError)
        is_missing = isinstance(problem, FileNotFoundError)
        reason = "kubelet's folders are missing" if is_missing else with_advice(problem)
        logs.emit_once(LockUnavailable(error=reason), "")
        return None

    def _is_in_place(self, resource: str, fd: int) -> bool:
        """Whether ``fd`` is the file that another process would open now."""
        in_place = self._open(resource)
        if in_place is None:
            return True  # no other file can be locked
        try:
            return _is_same(fd, in_place)
        finally:
            os.close(in_place)

    def _sign(self, resource: str, fd: int) -> None:
        """Write into the file which process has locked it."""
        logs.forget(LockUnavailable, "")
        with suppress(OSError):  # on a full disk the lock is valid, but has no name
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{resource}\n{self._signature}\n".encode(), 0)


def _signature(config_file: Path | None) -> str:
    """Identifies this process: pods on the host network share a host name, and often a PID."""
    with_file = f", configuration {config_file}" if config_file else ""
    return f"pid {os.getpid()} on {socket.gethostname()}{with_file}"


def _file_name(resource: str) -> str:
    """The name of a resource's lock file; no two resources share one."""
    name = _UNSAFE.sub(lambda m: "".join(f"%{b:02X}" for b in _bytes(m[0])), resource)
    if len(name) + len(_SUFFIX) > _NAME_MAX:
        import hashlib  # noqa: PLC0415 - its libcrypto takes 2 MiB, and names are seldom so long

        name = f"%{hashlib.sha256(_bytes(resource)).hexdigest()}"
    return f"{name}{_SUFFIX}"


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _resource_if_locked(path: Path) -> str | None:
    """The resource of a lock file that some process has locked; None if none has."""
    with suppress(OSError):
        fd = open_plain(path)
        try:
            # Shared, for a moment: a process that wants the lock just then tries again in 30 ms.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            name = path.name.removesuffix(_SUFFIX)
            return _read_lines(fd)[0] or _ENCODED.sub(lambda m: chr(int(m[1], 16)), name)
        finally:
            os.close(fd)
    return None


def _open_in_thread(folders: Collection[Path], path: str, name: str) -> int:
    """As :func:`_open_in_first`; raises TimeoutError if the file system hangs."""

    def work() -> int:
        return _open_in_first(folders, name)

    try:
        return blocking.call_now("locks", path, work, limit_s=ASK_LIMIT_S, undo=os.close)
    except blocking.NoThreadError:
        return work()


def _open_in_first(folders: Collection[Path], name: str) -> int:
    """A descriptor of a lock file, in the first folder where it opens.

    Raises FileNotFoundError if no folder exists, else the last other OSError. For a thread.
    """
    problem: OSError = FileNotFoundError()
    for folder in folders:
        try:
            return _open_lock(folder, name)
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = error
    raise problem


def _open_lock(folder: Path, name: str) -> int:
    # In a folder of its own: some kubelets remove every file of device-plugins when they start.
    with suppress(FileExistsError):
        os.mkdir(folder / LOCK_FOLDER, 0o700)  # noqa: PTH102 - no second look at what exists
    own = os.open(folder / LOCK_FOLDER, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.open(name, flags, 0o600, dir_fd=own)
    finally:
        os.close(own)


def _is_same(one: int, other: int) -> bool:
    """Whether two descriptors are of one file; True if that cannot be read."""
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return True


def _try_lock(fd: int) -> bool:
    """Lock an open file; False = another process has locked it.

    If the file system does not support locks (ENOLCK, EIO), return True: do not wait for them.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        logs.emit_once(LockUnavailable(error=with_advice(error)), "")
    return True


def _read_holder(fd: int) -> str:
    return _read_lines(fd)[1] or "an agent that did not write its name"


def _read_lines(fd: int) -> tuple[str, str]:
    """The resource and the process that a lock file names; empty if it does not."""
    try:
        text = os.pread(fd, _HOLDER_MAX_BYTES, 0).decode(errors="replace")
    except OSError:
        text = ""
    resource, _, holder = text.partition("\n")
    return resource.strip(), holder.strip()

"""Writes files atomically: to a draft in the same folder, which is then renamed over the file."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from agent import blocking
from agent.file_threads import FileThreads
from agent.host.sysfs import raise_if_exhausted
from agent.plain_files import open_plain

T = TypeVar("T")

_DRAFT = re.compile(r"\.sriov-agent-[0-9a-f]{16}\.tmp")


async def write_atomic(path: Path, data: bytes, mode: int) -> bool:
    """Write ``data`` to ``path`` with ``mode``, unless it is there; returns whether it was written.

    Creates the folder if it is missing. A symbolic link at ``path`` is replaced, never followed.
    Readers see either the old or the new content, also after a crash. Raises OSError, also if the
    folder's file system hangs.
    """
    return await in_folder(path.parent, lambda: write_now(path, data, mode))


async def in_folder(folder: Path, work: Callable[[], T]) -> T:
    """Run ``work`` on the files of a folder in a thread. Raises OSError, also if it hangs."""
    return await blocking.call(_purpose(folder), folder, work)


def _purpose(folder: Path) -> str:
    return f"files of {folder.name}"


def write_now(path: Path, data: bytes, mode: int) -> bool:
    """As :func:`write_atomic`, in this thread."""
    if _is_unchanged(path, data):
        return False
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = path.with_name(f".sriov-agent-{os.urandom(8).hex()}.tmp")
    try:
        with open(draft, "wb", opener=_exclusive) as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            draft.replace(path)  # while it is locked, so that nobody removes it as a leftover
    except BaseException as error:
        with suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # names of drafts are random
        raise
    return True


def _is_unchanged(path: Path, data: bytes) -> bool:
    """Whether ``path`` is a plain file with exactly ``data`` as its content."""
    try:
        with open(path, "rb", opener=open_plain) as file:
            return file.read(len(data) + 1) == data
    except OSError:
        return False


async def read_plain(path: Path, limit: int) -> bytes | None:
    """Content of a plain file of at most ``limit`` bytes; None if there is no such file.

    Raises OSError if the process is out of descriptors or memory.
    """
    files = FileThreads(_purpose(path.parent), path)
    try:
        async with files.open(path, open_plain) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data: bytes = await file.read(limit + 1)
    except OSError as error:
        raise_if_exhausted(error)
        return None
    return data if len(data) <= limit else None


def remove_drafts(folder: Path) -> tuple[str, ...]:
    """Remove drafts of processes that were killed while writing; returns their names.

    Other programs write into these folders too: only plain files of this user with the name of a
    draft are removed. A locked draft is being written by another agent of the node, and stays.
    """
    removed = []
    for draft in _drafts(folder):
        with suppress(OSError):
            if _is_ours(draft) and not _is_being_written(draft):
                draft.unlink()
                removed.append(draft.name)
    return tuple(removed)


def _drafts(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(".sriov-agent-*.tmp"))
    except OSError:  # a folder that cannot be read is left for the next start
        return []


def _is_ours(draft: Path) -> bool:
    status = draft.lstat()
    is_own_file = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_own_file and _DRAFT.fullmatch(draft.name) is not None


def _is_being_written(draft: Path) -> bool:
    fd = open_plain(draft)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _exclusive(path: str, _flags: int) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # O_EXCL follows no link
    with suppress(OSError):  # a file system without locks: they only matter with a second agent
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd

"""Reads the bytes of the configuration file, or gives the reason why there are none.

This is the first step of loading, and the only one that reads files. A directory is a mounted
ConfigMap with one key per node; without a key for this node, the node has no pools.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path

import aiofiles.os

from agent.attrs_classes import frozen
from agent.file_threads import FileThreads

MAX_BYTES = 16 * 1024 * 1024
"""A ConfigMap holds at most 1 MiB (Kubernetes API)."""
CONFIG_MAP_LINK = "..data"
"""The link that kubelet swaps when a mounted ConfigMap changes."""
FALLBACK_KEY = "config.json"
SOURCE = "configuration"
"""Names the thread in which it is read."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class SourceState(StrEnum):
    """The outcome of reading the configuration."""

    READ = "read"
    """``data`` holds the file's bytes."""
    NO_KEY = "no key for this node"
    """A mounted ConfigMap without a key for this node: no pools, ready and idle."""
    NO_FILE = "no file for this node"
    """Any other directory without a file for this node: no pools unless there was a file before."""
    AWAITED = "missing in a mounted ConfigMap"
    """The file may appear later: no pools until then."""
    MISSING = "missing"
    """There is no file, and no reason to expect one."""
    UNUSABLE = "unusable"
    """It exists, but cannot be read as a configuration file."""


@frozen
class SourceResult:
    """The bytes of the configuration, or why there are none."""

    path: Path
    """The file that was read or looked for; inside the directory if a directory was given."""
    state: SourceState
    data: bytes = b""
    message: str = ""
    """Cause and fix in one sentence; empty if read."""
    is_fault: bool = False
    """Whether the system could not read it now: the next try may succeed."""

    @property
    def is_idle(self) -> bool:
        """Whether the agent should run without pools and wait."""
        return self.state in {SourceState.NO_KEY, SourceState.NO_FILE, SourceState.AWAITED}


async def read_source(path: Path, node_name: str | None) -> SourceResult:
    """Read the configuration at ``path``; in a directory this node's key, then config.json.

    Raises nothing for any path: missing, unreadable, a pipe, a loop of links, on a mount that
    hangs.
    """
    files = FileThreads(SOURCE, path)
    try:
        if await aiofiles.os.path.isdir(path, executor=files):
            return await _read_directory(path, node_name, files)
        return await _read_file(path, files)
    except ValueError:
        return SourceResult(path, SourceState.UNUSABLE, message="the path holds a NUL character")
    except OSError as error:  # also where it hangs, or no thread can be made
        return _unreadable(path, error)


async def _read_directory(folder: Path, node_name: str | None, files: FileThreads) -> SourceResult:
    names = [name for name in (node_name, FALLBACK_KEY) if name and "/" not in name]
    for name in names:
        if await _exists(folder / name, files):
            return await _read_file(folder / name, files)
    missing = f"neither {' nor '.join(names)}" if len(names) > 1 else f"no {names[0]}"
    is_mounted = await _exists(folder / CONFIG_MAP_LINK, files)
    effect = ": no pools for this node" if is_mounted else ""
    hint = "" if node_name else "; NODE_NAME is not set, so no key could be chosen by node"
    return SourceResult(
        folder / names[0],
        SourceState.NO_KEY if is_mounted else SourceState.NO_FILE,
        message=f"{folder} holds {missing}{effect}{hint}",
    )


async def _read_file(path: Path, files: FileThreads) -> SourceResult:
    try:
        # Checked before opening: opening some devices has effects, opening a pipe may block.
        entry = await aiofiles.os.stat(path, executor=files)
        mode = entry.st_mode
        if not stat.S_ISREG(mode):
            return _unusable(path, f"is {_KINDS.get(stat.S_IFMT(mode), 'a directory')}, not a file")
        async with files.open(path, _open_at_once) as file:
            data: bytes = await file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return await _missing(path, files)
    except OSError as error:
        return _unreadable(path, error)
    if len(data) > MAX_BYTES:
        size = max(entry.st_size, len(data))
        return _unusable(path, f"is {size} bytes large, at most {MAX_BYTES} are allowed")
    return SourceResult(path, SourceState.READ, data)


async def _exists(path: Path, files: FileThreads) -> bool:
    """Whether an entry of that name exists, also a link to a missing file.

    Raises OSError if this cannot be determined: what cannot be read is not missing.
    """
    try:
        await aiofiles.os.stat(path, follow_symlinks=False, executor=files)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting, in case a pipe has replaced the file."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _unreadable(path: Path, error: OSError) -> SourceResult:
    message = f"{path} cannot be read: {error.strerror or error}"
    return SourceResult(path, SourceState.UNUSABLE, message=message, is_fault=True)


def _unusable(path: Path, what: str) -> SourceResult:
    return SourceResult(path, SourceState.UNUSABLE, message=f"{path} {what}")


async def _missing(path: Path, files: FileThreads) -> SourceResult:
    if await _exists(path.parent / CONFIG_MAP_LINK, files):
        return SourceResult(
            path,
            SourceState.AWAITED,
            message=f"{path.parent} is a mounted ConfigMap without the key {path.name}: no pools "
            "until it appears",
        )
    message = f"{path} does not exist"
    if await aiofiles.os.path.islink(path, executor=files):  # type: ignore[call-arg]  # not in stubs
        message = f"{path} is a link to a file that does not exist"
    if "$(" in str(path):
        message += "; $(...) was not replaced: is the variable defined in the pod's env?"
    return SourceResult(path, SourceState.MISSING, message=message)

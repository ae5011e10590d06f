"""Removes CDI specs that are no longer needed: ours of removed resources, and the Go plugin's.

Two spec files must never name the same device, since a runtime rejects such a name. So entries of
an old spec that a configured one has too are removed at once. Its other entries stay while a pod
may hold the device, since a runtime resolves the name at every start of a container.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent.attrs_classes import frozen
from agent.config.schema import PoolConfig
from agent.export.atomic import in_folder, read_plain
from agent.export.cdi import (
    FILE_PREFIX,
    SPEC_LIMIT,
    cdi_file_name,
    entries_of,
    may_be_held,
    possible_file_names,
    read_spec,
    twin_file_name,
    twin_resources,
    write_spec,
)
from agent.host.sysfs import raise_if_exhausted
from agent.plain_files import open_plain
from agent.transport.unix_socket import is_served_by_go_plugin

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_ONE_ENTRY = frozenset({errno.EISDIR, errno.EPERM, errno.EACCES, errno.EIO, errno.EBUSY})
"""Errors that may concern only one entry of a folder: the other entries are cleaned."""


@frozen
class Cleaning:
    """The result of removing specs."""

    removed: tuple[str, ...] = ()
    """File names, sorted."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Entries of the folder that could not be cleaned, each with the reason, sorted."""


async def remove_stale_specs(
    folder: Path,
    configured: Sequence[PoolConfig],
    held: frozenset[str] | None,
    others: frozenset[str] = frozenset(),
    sockets: tuple[Path, ...] = (),
) -> Cleaning:
    """Remove specs of resources no longer configured.

    ``held`` are the devices that are allocated to pods, None while that is unknown. The Go plugin's
    ``.yaml`` files are not edited: one that our own spec replaces is removed. Any other stays while
    it mentions a device that may be allocated, and while the Go plugin listens for its resource in
    one of the folders ``sockets`` and so may allocate its devices. The specs of the resources
    ``others``, which other agents of the node serve, are not touched. Entries that are not plain
    files, or cannot be read or removed, are skipped. Raises OSError if the folder cannot be read.
    """
    ours = {cdi_file_name(c) for c in configured}
    ours |= {name for resource in others for name in possible_file_names(resource)}
    twins = {twin_file_name(c) for c in configured}
    files, skipped = await in_folder(folder, lambda: _spec_files(folder))
    specs = {p: await read_spec(p) for p in files if p.suffix == ".json"}
    defined = {name for p, spec in specs.items() if p.name in ours for name in _names(spec)}
    removed = []
    for path in files:
        try:
            if path in specs and path.name not in ours:
                is_removed = await _reduce(path, specs[path], defined, held)
            else:
                is_removed = path.suffix == ".yaml" and (
                    path.name in twins
                    or not (await _mentions(path, held) or await _is_served(path, sockets))
                )
                if is_removed:
                    await _unlink(path)
        except OSError as error:
            if error.errno not in _ONE_ENTRY:
                raise
            skipped[path.name] = error.strerror or str(error)
            continue
        if is_removed:
            removed.append(path.name)
    unknown = sorted((name, why) for name, why in skipped.items() if name not in ours)
    return Cleaning(tuple(removed), tuple(unknown))


def _spec_files(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Files and links with a spec's name, sorted; and other such entries, each with its type."""
    files: list[Path] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.glob(f"{FILE_PREFIX}*")):
        try:
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                os.close(open_plain(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise_if_exhausted(error)
            skipped[path.name] = error.strerror or str(error)
            continue
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            files.append(path)
        else:
            skipped[path.name] = f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, not a file"
    return files, skipped


def _names(spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(str(spec.get("kind")), name) for name in entries_of(spec)}


async def _reduce(
    path: Path,
    spec: Mapping[str, Any],
    defined: set[tuple[str, str]],
    held: frozenset[str] | None,
) -> bool:
    """Remove unneeded entries from an old spec; returns whether the file was removed."""
    kind = str(spec.get("kind"))
    needed = [
        entry
        for name, entry in entries_of(spec).items()
        if (kind, name) not in defined and may_be_held(name, held)
    ]
    if needed:
        await write_spec(path, {**spec, "devices": needed})
    else:
        await _unlink(path)
    return not needed


async def _unlink(path: Path) -> None:
    await in_folder(path.parent, lambda: path.unlink(missing_ok=True))


async def _is_served(path: Path, sockets: tuple[Path, ...]) -> bool:
    """Whether the Go plugin that wrote a spec still runs."""
    resources = twin_resources(path.name)
    for folder in sockets:
        for resource in resources:
            if await in_folder(folder, partial(is_served_by_go_plugin, (folder,), resource)):
                return True
    return False


async def _mentions(path: Path, held: frozenset[str] | None) -> bool:
    if held is None:
        return True
    text = (await read_plain(path, SPEC_LIMIT) or b"").decode(errors="replace")
    return any(device_id in text for device_id in held)

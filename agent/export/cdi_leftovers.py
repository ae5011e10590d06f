"""Removes CDI specs that nobody needs any more: ours of retired resources, and the Go plugin's.

Two spec files must never name the same device: a runtime then refuses that name altogether. So
what a retired spec shares with a configured one goes at once, and what only it knows stays while
a pod may hold it: a runtime looks the name up at every start of a container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    write_spec,
)


async def remove_stale_specs(
    folder: Path,
    configured: Sequence[PoolConfig],
    held: frozenset[str] | None,
    others: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """Remove specs of resources no longer configured; returns the names removed, sorted.

    ``held`` are the devices in the hands of pods, None while that is not known. The Go plugin's
    ``.yaml`` files are not taken apart: one that our own spec replaces goes, any other stays while
    it mentions a device that a pod may hold. The specs of the resources ``others``, which other
    agents of the node serve, are not touched. Raises OSError.
    """
    ours = {cdi_file_name(c) for c in configured}
    ours |= {name for resource in others for name in possible_file_names(resource)}
    twins = {cdi_file_name(c, ".yaml") for c in configured}
    files = await in_folder(folder, lambda: _spec_files(folder))
    specs = {p: await read_spec(p) for p in files if p.suffix == ".json"}
    defined = {name for p, spec in specs.items() if p.name in ours for name in _names(spec)}
    removed = []
    for path in files:
        if path in specs and path.name not in ours:
            gone = await _reduce(path, specs[path], defined, held)
        else:
            gone = path.suffix == ".yaml" and (
                path.name in twins or not await _mentions(path, held)
            )
            if gone:
                await _unlink(path)
        if gone:
            removed.append(path.name)
    return tuple(removed)


def _spec_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{FILE_PREFIX}*"))


def _names(spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(str(spec.get("kind")), name) for name in entries_of(spec)}


async def _reduce(
    path: Path,
    spec: Mapping[str, Any],
    defined: set[tuple[str, str]],
    held: frozenset[str] | None,
) -> bool:
    """Leave in a retired spec only what a pod may still need; returns whether it is gone."""
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


async def _mentions(path: Path, held: frozenset[str] | None) -> bool:
    if held is None:
        return True
    text = (await read_plain(path, SPEC_LIMIT) or b"").decode(errors="replace")
    return any(device_id in text for device_id in held)

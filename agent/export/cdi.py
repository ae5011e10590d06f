"""CDI specs (Container Device Interface): device nodes that a container runtime adds by name.

One spec file for each resource, written before the resource's list is sent. A runtime resolves a
name at every start of a container, so the entry of a device that a pod holds stays as it was when
the pod got it, even while the host hides the facts behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.config.schema import PoolConfig
from agent.export.atomic import read_plain, remove_drafts, write_atomic
from agent.export.names import safe_file_name, shortened
from agent.kinds import KINDS
from agent.pools.allocation import device_nodes, missing_node
from agent.pools.records import Member, Pool

CDI_VERSION = "0.5.0"
"""The lowest that knows ``hostPath`` of device nodes and device names that begin with a digit."""
FILE_PREFIX = "sriov-dp-"
FILE_MODE = 0o644
_SPEC_LIMIT = 16 << 20
_ANNOTATION_NAME_MAX = 63
"""Kubernetes: the name part of an annotation key."""


def cdi_kind(config: PoolConfig) -> str:
    """``<prefix>/<class>``, shared by all resources of one prefix and device type."""
    return f"{config.prefix}/{KINDS[config.kind].cdi_class}"


def cdi_file_name(config: PoolConfig, suffix: str = ".json") -> str:
    """Name of a resource's spec file."""
    stem = f"{FILE_PREFIX}{config.prefix}-{KINDS[config.kind].cdi_class}-{config.name}"
    return safe_file_name(stem, suffix)


def qualified_name(config: PoolConfig, device_id: str) -> str:
    """Fully qualified CDI name of a device."""
    return f"{cdi_kind(config)}={device_id}"


def annotation_key(config: PoolConfig) -> str:
    """Annotation key of a resource: unique, so that a pod's two pools do not hide each other."""
    name = f"{config.prefix}_{KINDS[config.kind].cdi_class}_{config.name}"
    return f"cdi.k8s.io/{shortened(name, _ANNOTATION_NAME_MAX)}"


def has_cdi_entry(member: Member, *, rdma_cm: bool) -> bool:
    """Whether a device has nodes: an entry with empty edits makes runtimes refuse the file."""
    return not missing_node(member) and any(True for _ in device_nodes(member, rdma_cm=rdma_cm))


def cdi_document(
    pool: Pool, held: frozenset[str], before: Mapping[str, Any], *, rdma_cm: bool
) -> dict[str, object] | None:
    """The spec of a pool; None where no device has a node.

    ``before`` holds the entries of the spec now on disk, by device name: the entry of a device in
    ``held`` is taken over from it.
    """
    entries = []
    for member in pool.members:
        kept = before.get(member.device.id) if member.device.id in held else None
        entry = kept or _entry(member, rdma_cm=rdma_cm)
        if entry:
            entries.append(entry)
    known = {m.device.id for m in pool.members}
    entries += [before[i] for i in sorted(held - known) if i in before]
    if not entries:
        return None
    return {"cdiVersion": CDI_VERSION, "kind": cdi_kind(pool.config), "devices": entries}


def _entry(member: Member, *, rdma_cm: bool) -> dict[str, object] | None:
    if not has_cdi_entry(member, rdma_cm=rdma_cm):
        return None
    nodes = {n.container_path: n for n in device_nodes(member, rdma_cm=rdma_cm)}
    edits = [
        {"path": n.container_path, "hostPath": n.host_path, "permissions": n.permissions}
        for n in nodes.values()
    ]
    return {"name": member.device.id, "containerEdits": {"deviceNodes": edits}}


async def write_cdi_spec(folder: Path, pool: Pool, held: frozenset[str], *, rdma_cm: bool) -> bool:
    """Make a pool's spec file true; returns whether anything changed. Raises OSError."""
    path = folder / cdi_file_name(pool.config)
    document = cdi_document(pool, held, await _entries(path), rdma_cm=rdma_cm)
    if document is not None:
        data = json.dumps(document, indent=1).encode()
        return await write_atomic(path, data, FILE_MODE)
    if path.is_file() or path.is_symlink():
        path.unlink()
        return True
    return False


async def _entries(path: Path) -> Mapping[str, Any]:
    data = await read_plain(path, _SPEC_LIMIT)
    try:
        devices = json.loads(data or b"{}").get("devices") or []
        return {d["name"]: d for d in devices if d["containerEdits"]["deviceNodes"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


async def remove_stale_specs(
    folder: Path, configured: Sequence[PoolConfig], held_ids: frozenset[str]
) -> tuple[str, ...]:
    """Remove our own specs of resources no longer configured, and the Go plugin's ``.yaml`` twins.

    A spec that names a device in ``held_ids`` stays until no pod holds it: its runtime needs it at
    the next start of a container. A ``.yaml`` twin goes only where our own spec has taken its
    place, since two files may not name the same device. Returns the names removed, sorted.
    """
    ours = {cdi_file_name(c) for c in configured}
    twins = {cdi_file_name(c, ".yaml") for c in configured}
    removed = []
    for path in _spec_files(folder):
        if path.suffix == ".json" and path.name not in ours:
            stale = not held_ids & set(await _entries(path))
        elif path.suffix == ".yaml":
            stale = path.name in twins or not await _mentions(path, held_ids)
        else:
            stale = False
        if stale:
            with suppress(FileNotFoundError):
                path.unlink()
                removed.append(path.name)
    remove_drafts(folder)
    return tuple(removed)


def _spec_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{FILE_PREFIX}*"))


async def _mentions(path: Path, device_ids: frozenset[str]) -> bool:
    text = (await read_plain(path, _SPEC_LIMIT) or b"").decode(errors="replace")
    return any(device_id in text for device_id in device_ids)

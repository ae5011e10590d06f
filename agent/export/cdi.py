"""CDI specs (Container Device Interface): device nodes that a container runtime adds by name.

There is one spec file for each resource, written before the resource's list is sent. A runtime
resolves a name at every start of a container, so the entry of an allocated device stays as it was
at the allocation, even while the pod's network namespace hides the facts it was made from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.config.names import cdi_device_fault, cdi_vendor_fault
from agent.config.schema import PoolConfig
from agent.export.atomic import in_folder, read_plain, write_atomic
from agent.export.names import digest, safe_file_name, shortened
from agent.kinds import KINDS
from agent.model.nodes import HostNodes
from agent.pools.allocation import device_nodes, missing_node
from agent.pools.pool import Member, Pool

CDI_VERSION = "0.5.0"
"""The lowest version with ``hostPath`` of device nodes and device names that start with a digit."""
FILE_PREFIX = "sriov-dp-"
FILE_MODE = 0o644
SPEC_LIMIT = 16 << 20
"""Size (bytes) that no spec of ours reaches; larger files are ignored."""
_ANNOTATION_NAME_MAX = 63
"""Kubernetes: the name part of an annotation key."""
_UNIQUE_STEM_MAX = 200
_CLASSES = tuple(f"-{kind.cdi_class}-" for kind in KINDS.values())


def cdi_kind(config: PoolConfig) -> str:
    """``<prefix>/<class>``, shared by all resources of one prefix and device type."""
    return f"{config.prefix}/{config.kind.cdi_class}"


def kind_fault(config: PoolConfig) -> str | None:
    """Why runtimes reject the CDI kind of a pool; None = they accept it.

    CDI's vendor is the prefix.
    """
    fault = cdi_vendor_fault(config.prefix)
    return fault and (
        f'the prefix "{config.prefix}" {fault}: '
        "give the pool another resourcePrefix, or run without --use-cdi"
    )


def cdi_file_name(config: PoolConfig) -> str:
    """Name of a resource's spec file, different for each resource.

    ``x.io/net-pci-a`` and ``x.io-net-pci/a`` would have the same name. If the class of a resource
    is the first class name in it, it is used as it is; otherwise a ``+``, which no resource name
    has, and a hash are added.
    """
    stem = _stem(config)
    first = min(place for words in _CLASSES if (place := stem.find(words)) >= 0)
    if first == len(config.prefix):
        return safe_file_name(f"{FILE_PREFIX}{stem}", ".json")
    shown = shortened(stem, _UNIQUE_STEM_MAX)
    return f"{FILE_PREFIX}{shown}+{digest(f'{config.prefix}/{config.name}')}.json"


def twin_file_name(config: PoolConfig) -> str:
    """Name of the spec file that the Go plugin writes for a resource."""
    return safe_file_name(f"{FILE_PREFIX}{_stem(config)}", ".yaml")


def twin_resources(file_name: str) -> tuple[str, ...]:
    """The resources for which the Go plugin would write a spec file with this name."""
    stem = file_name.removeprefix(FILE_PREFIX).removesuffix(".yaml")
    halves = (stem.partition(words) for words in _CLASSES)
    return tuple(f"{prefix}/{name}" for prefix, words, name in halves if words)


def _stem(config: PoolConfig) -> str:
    return f"{config.prefix}-{config.kind.cdi_class}-{config.name}"


def possible_file_names(resource: str) -> tuple[str, ...]:
    """Names that the spec file of a resource can have: one for each kind of devices."""
    prefix, _, name = resource.rpartition("/")
    configs = (PoolConfig(name=name, prefix=prefix, kind=kind) for kind in KINDS.values())
    return tuple(cdi_file_name(config) for config in configs)


def qualified_name(config: PoolConfig, device_id: str) -> str:
    """Fully qualified CDI name of a device."""
    return f"{cdi_kind(config)}={device_id}"


def annotation_key(config: PoolConfig) -> str:
    """Annotation key of a resource: unique, so that a pod's two pools do not hide each other."""
    name = f"{config.prefix}_{config.kind.cdi_class}_{config.name}"
    return f"cdi.k8s.io/{shortened(name, _ANNOTATION_NAME_MAX)}"


def has_cdi_entry(member: Member, host: HostNodes) -> bool:
    """Whether a device has nodes: an entry with empty edits makes runtimes refuse the file."""
    return not missing_node(member, host) and any(True for _ in device_nodes(member, host))


def cdi_document(
    pool: Pool, held: frozenset[str] | None, before: Mapping[str, Any], host: HostNodes
) -> dict[str, object] | None:
    """The spec of a pool; None if no device has a node.

    ``before`` has the entries of the spec on disk, by device name: that of a device in ``held`` is
    kept. ``held`` is None while it is unknown which devices pods hold: then an entry is also kept
    if the host has no node from which a new one could be made.
    """
    entries = []
    for member in pool.members:
        kept = before.get(member.device.id) if held and member.device.id in held else None
        entry = kept or cdi_entry(member, host)
        if entry is None and held is None:
            entry = before.get(member.device.id)
        if entry:
            entries.append(entry)
    member_ids = {m.device.id for m in pool.members}
    others = ((i, e) for i, e in sorted(before.items()) if i not in member_ids)
    entries += [entry for device_id, entry in others if may_be_held(device_id, held)]
    return _document(pool.config, entries) if entries else None


def _document(config: PoolConfig, devices: Sequence[object]) -> dict[str, object]:
    return {"cdiVersion": CDI_VERSION, "kind": cdi_kind(config), "devices": devices}


def may_be_held(device_id: str, held: frozenset[str] | None) -> bool:
    """Whether a pod may hold a device; ``held`` None = unknown."""
    return held is None or device_id in held


def cdi_entry(member: Member, host: HostNodes) -> dict[str, object] | None:
    """The spec entry of a device by its present facts; None if it has no nodes."""
    if cdi_device_fault(member.device.id) or not has_cdi_entry(member, host):
        return None
    nodes = {n.container_path: n for n in device_nodes(member, host)}
    edits = [
        {"path": n.container_path, "hostPath": n.host_path, "permissions": n.permissions}
        for n in nodes.values()
    ]
    return {"name": member.device.id, "containerEdits": {"deviceNodes": edits}}


async def write_cdi_spec(
    folder: Path, pool: Pool, held: frozenset[str] | None, host: HostNodes
) -> bool:
    """Bring a pool's spec file up to date; returns whether it changed. Raises OSError."""
    path = folder / cdi_file_name(pool.config)
    document = cdi_document(pool, held, entries_of(await read_spec(path)), host)
    if document is not None:
        return await write_spec(path, document)
    return await in_folder(folder, lambda: _remove(path))


def _remove(path: Path) -> bool:
    """Remove a spec; returns whether there was one."""
    if not (path.is_file() or path.is_symlink()):
        return False
    path.unlink()
    return True


async def renew_entries(
    folder: Path, config: PoolConfig, members: Iterable[Member], host: HostNodes
) -> bool:
    """Bring the entries of some members up to date, held by pods or not.

    Returns whether an entry changed. Raises OSError.
    """
    path = folder / cdi_file_name(config)
    document = await read_spec(path)
    before = entries_of(document)
    entries = {m.device.id: cdi_entry(m, host) for m in members}
    changed = {i: entry for i, entry in entries.items() if entry and before.get(i) != entry}
    if not changed:
        return False
    devices = list({**before, **changed}.values())
    return await write_spec(path, _document(config, devices))


async def entries_on_disk(
    folder: Path, pool: Pool, held: frozenset[str] | None, host: HostNodes
) -> tuple[frozenset[str], frozenset[str]]:
    """The devices in a pool's spec on disk, and those of them whose entries are up to date.

    Raises OSError.
    """
    document = await read_spec(folder / cdi_file_name(pool.config))
    before = entries_of(document)
    wanted = cdi_document(pool, held, before, host) or {}
    is_readable = all(document.get(key) == wanted.get(key) for key in ("cdiVersion", "kind"))
    entries = entries_of(wanted) if is_readable else {}
    return frozenset(before), frozenset(i for i, entry in entries.items() if before.get(i) == entry)


async def write_spec(path: Path, document: Mapping[str, object]) -> bool:
    """Write a spec file; returns whether its content changed. Raises OSError."""
    return await write_atomic(path, json.dumps(document, indent=1).encode(), FILE_MODE)


async def read_spec(path: Path) -> Mapping[str, Any]:
    """A spec that an agent wrote; empty if there is none, or if the file is something else.

    Raises OSError if the file cannot be read: its entries of held devices must not be lost.
    """
    data = await read_plain(path, SPEC_LIMIT)
    try:
        document = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def entries_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The device entries of a spec by name; none if one of them is malformed."""
    try:
        devices = document.get("devices") or []
        return {d["name"]: d for d in devices if d["containerEdits"]["deviceNodes"]}
    except (TypeError, KeyError):
        return {}

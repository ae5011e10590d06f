"""CDI specs (Container Device Interface): device nodes that a container runtime adds by name.

One spec file for each resource, written before the resource's list is sent. A runtime resolves a
name at every start of a container, so the entry of a device that a pod holds stays as it was when
the pod got it, even while the host hides the facts behind it.
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
"""The lowest that knows ``hostPath`` of device nodes and device names that begin with a digit."""
FILE_PREFIX = "sriov-dp-"
FILE_MODE = 0o644
SPEC_LIMIT = 16 << 20
"""Larger files (bytes) are not ours."""
_ANNOTATION_NAME_MAX = 63
"""Kubernetes: the name part of an annotation key."""
_UNIQUE_STEM_MAX = 200
_CLASSES = tuple(f"-{kind.cdi_class}-" for kind in KINDS.values())


def cdi_kind(config: PoolConfig) -> str:
    """``<prefix>/<class>``, shared by all resources of one prefix and device type."""
    return f"{config.prefix}/{config.kind.cdi_class}"


def kind_fault(config: PoolConfig) -> str | None:
    """Why no runtime takes the kind of a pool; None = it does.

    CDI's vendor is the prefix.
    """
    fault = cdi_vendor_fault(config.prefix)
    return fault and (
        f'the prefix "{config.prefix}" {fault}: '
        "give the pool another resourcePrefix, or run without --use-cdi"
    )


def cdi_file_name(config: PoolConfig) -> str:
    """Name of a resource's spec file: its own, whatever other resources there are.

    ``x.io/net-pci-a`` and ``x.io-net-pci/a`` make the same words. The one whose class is the first
    in them has them as they are; any other has a ``+``, which no resource has, and a hash.
    """
    stem = _stem(config)
    first = min(place for words in _CLASSES if (place := stem.find(words)) >= 0)
    if first == len(config.prefix):
        return safe_file_name(f"{FILE_PREFIX}{stem}", ".json")
    shown = shortened(stem, _UNIQUE_STEM_MAX)
    return f"{FILE_PREFIX}{shown}+{digest(f'{config.prefix}/{config.name}')}.json"


def twin_file_name(config: PoolConfig) -> str:
    """Name of the spec file that the Go plugin has for a resource."""
    return safe_file_name(f"{FILE_PREFIX}{_stem(config)}", ".yaml")


def twin_resources(file_name: str) -> tuple[str, ...]:
    """Resources that can have given a spec file of the Go plugin its name."""
    stem = file_name.removeprefix(FILE_PREFIX).removesuffix(".yaml")
    halves = (stem.partition(words) for words in _CLASSES)
    return tuple(f"{prefix}/{name}" for prefix, words, name in halves if words)


def _stem(config: PoolConfig) -> str:
    return f"{config.prefix}-{config.kind.cdi_class}-{config.name}"


def possible_file_names(resource: str) -> tuple[str, ...]:
    """Names that the spec file of a resource can have, whatever the kind of its devices."""
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
    """The spec of a pool; None where no device has a node.

    ``before`` holds the entries of the spec now on disk, by device name: the entry of a device in
    ``held`` is taken over from it. ``held`` is None while nobody knows who holds what: then an
    entry is kept wherever the host shows no node for a new one.
    """
    entries = []
    for member in pool.members:
        kept = before.get(member.device.id) if held and member.device.id in held else None
        entry = kept or cdi_entry(member, host)
        if entry is None and held is None:
            entry = before.get(member.device.id)
        if entry:
            entries.append(entry)
    known = {m.device.id for m in pool.members}
    entries += [e for i, e in sorted(before.items()) if i not in known and may_be_held(i, held)]
    return _document(pool.config, entries) if entries else None


def _document(config: PoolConfig, devices: Sequence[object]) -> dict[str, object]:
    return {"cdiVersion": CDI_VERSION, "kind": cdi_kind(config), "devices": devices}


def may_be_held(device_id: str, held: frozenset[str] | None) -> bool:
    """Whether a pod may hold a device, where None stands for not knowing."""
    return held is None or device_id in held


def cdi_entry(member: Member, host: HostNodes) -> dict[str, object] | None:
    """A device in a spec, as its facts are now; None where it has no nodes."""
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
    """Make a pool's spec file true; returns whether anything changed. Raises OSError."""
    path = folder / cdi_file_name(pool.config)
    document = cdi_document(pool, held, entries_of(await read_spec(path)), host)
    if document is not None:
        return await write_spec(path, document)
    return await in_folder(folder, lambda: _remove(path))


def _remove(path: Path) -> bool:
    """Remove a spec; tells whether there was one."""
    if not (path.is_file() or path.is_symlink()):
        return False
    path.unlink()
    return True


async def renew_entries(
    folder: Path, config: PoolConfig, members: Iterable[Member], host: HostNodes
) -> bool:
    """Make the entries of some members true, whoever holds them; returns whether any was not.

    Raises OSError.
    """
    path = folder / cdi_file_name(config)
    document = await read_spec(path)
    before = entries_of(document)
    entries = {m.device.id: cdi_entry(m, host) for m in members}
    fresh = {i: entry for i, entry in entries.items() if entry and before.get(i) != entry}
    if not fresh:
        return False
    devices = list({**before, **fresh}.values())
    return await write_spec(path, _document(config, devices))


async def standing_entries(
    folder: Path, pool: Pool, held: frozenset[str] | None, host: HostNodes
) -> tuple[frozenset[str], frozenset[str]]:
    """The devices that a pool's spec names as it is, and those of them that it names rightly.

    Raises OSError.
    """
    document = await read_spec(folder / cdi_file_name(pool.config))
    before = entries_of(document)
    wanted = cdi_document(pool, held, before, host) or {}
    is_readable = all(document.get(key) == wanted.get(key) for key in ("cdiVersion", "kind"))
    entries = entries_of(wanted) if is_readable else {}
    return frozenset(before), frozenset(i for i, entry in entries.items() if before.get(i) == entry)


async def write_spec(path: Path, document: Mapping[str, object]) -> bool:
    """Write a spec file; returns whether its content is another now. Raises OSError."""
    return await write_atomic(path, json.dumps(document, indent=1).encode(), FILE_MODE)


async def read_spec(path: Path) -> Mapping[str, Any]:
    """A spec of our own making; empty where there is none, or something else in its place.

    Raises OSError where it cannot be told which: its entries of held devices must not be lost.
    """
    data = await read_plain(path, SPEC_LIMIT)
    try:
        document = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def entries_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The device entries of a spec by name; none where any is malformed."""
    try:
        devices = document.get("devices") or []
        return {d["name"]: d for d in devices if d["containerEdits"]["deviceNodes"]}
    except (TypeError, KeyError):
        return {}

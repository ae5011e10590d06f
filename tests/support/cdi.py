"""The rules of the Container Device Interface for spec files, as far as runtimes check them.

Written from the CDI specification 1.0: names, allowed keys, edits, and the lowest version that
the features in use need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_VENDOR_OR_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0")
_SPEC_KEYS = {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
_DEVICE_KEYS = {"name", "annotations", "containerEdits"}
_EDIT_KEYS = {"env", "deviceNodes", "hooks", "mounts", "intelRdt", "additionalGids"}
_NODE_KEYS = {
    "path",
    "hostPath",
    "type",
    "major",
    "minor",
    "fileMode",
    "permissions",
    "uid",
    "gid",
}


def faults(spec: Mapping[str, Any]) -> list[str]:
    """Everything that a runtime would refuse, or that says more than it must."""
    return list(_faults(spec))


def conflicts(specs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Qualified names that more than one spec defines: a runtime resolves none of these."""
    seen: set[str] = set()
    twice: set[str] = set()
    for spec in specs:
        for device in spec["devices"]:
            name = f"{spec['kind']}={device['name']}"
            (twice if name in seen else seen).add(name)
    return twice


def resolve(specs: Iterable[Mapping[str, Any]], name: str) -> list[tuple[str, str]]:
    """(container path, host path) of the nodes that a qualified name brings."""
    kind, _, device_name = name.partition("=")
    return [
        (node["path"], node["hostPath"])
        for spec in specs
        if spec["kind"] == kind
        for device in spec["devices"]
        if device["name"] == device_name
        for node in device["containerEdits"]["deviceNodes"]
    ]


def _faults(spec: Mapping[str, Any]) -> Iterator[str]:
    if extra := spec.keys() - _SPEC_KEYS:
        yield f"unknown keys {sorted(extra)}"
    vendor, _, kind_class = str(spec.get("kind")).partition("/")
    for name in (vendor, kind_class):
        if not _VENDOR_OR_CLASS.fullmatch(name):
            yield f"kind {spec.get('kind')!r}"
    devices = spec.get("devices") or []
    names = [d.get("name") for d in devices]
    if len(names) != len(set(names)):
        yield "a device name comes twice"
    if not devices:
        yield "no devices"
    for device in devices:
        yield from _device_faults(device)
    if spec.get("cdiVersion") != lowest_version(spec):
        yield f"version {spec.get('cdiVersion')}, needed is {lowest_version(spec)}"


def _device_faults(device: Mapping[str, Any]) -> Iterator[str]:
    if extra := device.keys() - _DEVICE_KEYS:
        yield f"unknown keys {sorted(extra)}"
    if not _DEVICE.fullmatch(str(device.get("name"))):
        yield f"device name {device.get('name')!r}"
    edits = device.get("containerEdits") or {}
    if extra := edits.keys() - _EDIT_KEYS:
        yield f"unknown edits {sorted(extra)}"
    if not any(edits.values()):
        yield f"device {device.get('name')} has empty edits"
    nodes = edits.get("deviceNodes") or []
    if len({n.get("path") for n in nodes}) != len(nodes):
        yield "two nodes with one path in the container"
    for node in nodes:
        yield from _node_faults(node)


def _node_faults(node: Mapping[str, Any]) -> Iterator[str]:
    if extra := node.keys() - _NODE_KEYS:
        yield f"unknown keys {sorted(extra)}"
    for key in ("path", "hostPath"):
        if not str(node.get(key, "/")).startswith("/"):
            yield f"{key} {node.get(key)!r}"
    if not node.get("path"):
        yield "a node without path"
    if set(node.get("permissions", "")) - set("rwm"):
        yield f"permissions {node['permissions']!r}"
    if node.get("type", "") not in {"", "b", "c", "u", "p"}:
        yield f"type {node['type']!r}"


def lowest_version(spec: Mapping[str, Any]) -> str:
    """The first version that has every feature in use."""
    devices = spec.get("devices") or []
    edits = [e.get("containerEdits") or {} for e in (spec, *devices)]
    nodes = [n for e in edits for n in e.get("deviceNodes") or []]
    needed = ["0.3.0"]
    if any(m.get("type") for e in edits for m in e.get("mounts") or []):
        needed.append("0.4.0")
    if any(n.get("hostPath") for n in nodes) or any(d["name"][0].isdigit() for d in devices):
        needed.append("0.5.0")
    if any(e.get("annotations") for e in (spec, *devices)) or "." in spec["kind"].split("/")[1]:
        needed.append("0.6.0")
    if any(e.get("intelRdt") or e.get("additionalGids") for e in edits):
        needed.append("0.7.0")
    return max(needed, key=_VERSIONS.index)

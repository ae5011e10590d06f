"""Records on disk which devices the agent allocated, for its next start.

There is one small file for each resource, in the folder of the device-info files, so that agents
that serve other resources of the node have other files. Pods are not recorded. Records of an
earlier boot of the host are ignored, since no container survives a boot.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import attrs

from agent import logs
from agent.attrs_classes import frozen
from agent.errno_advice import with_advice
from agent.events.allocation import AllocationNotRecorded, RecordIgnored
from agent.export.atomic import in_folder, read_plain, write_atomic
from agent.export.names import safe_file_name, shortened
from agent.plain_files import open_plain
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import CONFIRM_WITHIN_S
from agent.roots import Roots

_PREFIX = ".sriov-agent-given-"
_FILE_MODE = 0o600
_LIMIT = 4 << 20
"""Size (bytes) that no record reaches; larger files are truncated, and so ignored."""
_STEM_MAX = 200
_LONG_AGO = float("-inf")
RECENT_S = 60.0
"""How long (s) the record of another agent counts: after it, kubelet's pod-resources lists the
device."""


def record_name(resource: str) -> str:
    """Name of a resource's file; a prefix has no ``_``, so that no two resources share one."""
    return _PREFIX + safe_file_name(shortened(resource.replace("/", "_", 1), _STEM_MAX), ".json")


@frozen
class Records:
    """The contents of the files."""

    boot_id: str = ""
    """The host's present boot id; empty if it cannot be read."""
    given: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Resource -> ids of the devices allocated since the host's last boot, by any run."""
    contents: Mapping[str, bytes] = attrs.field(factory=dict)
    """Resource -> the bytes of its file."""
    damaged: tuple[Path, ...] = ()
    """Files that cannot be read or parsed."""


def read_records(roots: Roots) -> Records:
    """Read the files of this boot. For a thread."""
    boot_id = _read(roots.boot_id).decode(errors="replace").strip()
    given, contents, damaged = {}, {}, []
    for path in sorted(roots.device_info.glob(f"{_PREFIX}*.json")):
        data = _read(path)
        document = _parse(data)
        if document is None or path.name != record_name(document.resource):
            damaged.append(path)
        elif document.boot_id == boot_id:
            given[document.resource], contents[document.resource] = document.device_ids, data
    return Records(boot_id, given, contents, tuple(damaged))


@frozen
class _Document:
    """The content of one file."""

    boot_id: str
    resource: str
    device_ids: frozenset[str]


def _parse(data: bytes) -> _Document | None:
    """The content of a file; None if it is damaged."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        document = json.loads(data)
        boot_id, resource, ids = (document[k] for k in ("bootId", "resource", "deviceIds"))
        if all(isinstance(text, str) for text in (boot_id, resource, *ids)):
            return _Document(boot_id, resource, frozenset(ids))
    return None


def _read(path: Path) -> bytes:
    """At most the first 4 MiB of a file; empty if it cannot be read."""
    with suppress(OSError), open(path, "rb", opener=open_plain) as file:
        return file.read(_LIMIT)
    return b""


class GivenRecord:
    """Adds devices before Allocate answers, and removes those that no pod holds any longer."""

    def __init__(self, roots: Roots, others: Callable[[], frozenset[str]] = frozenset) -> None:
        """``others`` returns the resources that other agents of the node serve."""
        self._folder = roots.device_info
        self._others = others
        self._boot_id = ""
        self._given: dict[str, dict[str, float]] = {}
        """Resource -> device id -> loop time (s) of the answer; minus infinity for earlier runs."""
        self._unwritten: dict[str, bytes] = {}
        """Resource -> content of a file that this run has read but not written."""
        self._written: set[str] = set()
        """Resources whose files this run has written: no other agent serves them."""
        self._lock = asyncio.Lock()

    def begin(self, records: Records) -> None:
        """Start with the records of earlier runs."""
        self._boot_id = records.boot_id
        self._given = {r: dict.fromkeys(ids, _LONG_AGO) for r, ids in records.given.items()}
        self._unwritten = dict(records.contents)
        for path in records.damaged:
            logs.emit(RecordIgnored(file=str(path)))

    async def add(self, resource: str, device_ids: Iterable[str]) -> None:
        """Record devices before Allocate answers.

        Allocate continues if the file cannot be written: kubelet's checkpoint has the devices too.
        """
        now = asyncio.get_running_loop().time()
        async with self._lock:
            if resource not in self._written:
                await self._take_over(resource)
            self._given.setdefault(resource, {}).update(dict.fromkeys(device_ids, now))
            await self._write(resource)

    async def given_by_others(
        self, resource: str, device_ids: Collection[str]
    ) -> tuple[str, str] | None:
        """A device that another agent allocated just now, and its resource there; None = none.

        For two agents whose resources select the same device: kubelet lists the device shortly
        after the other agent's allocation, and pod-resources is not read at each allocation. To be
        called after :meth:`add`: then one of two concurrent agents sees the other's record.
        """
        own = self._folder / record_name(resource)
        ours = frozenset(self._written)
        try:
            recent = await in_folder(self._folder, lambda: self._recent(own, ours, device_ids))
        except OSError:
            return None  # add() has logged it
        live = self._others() if recent else frozenset()
        return next(((i, other) for i, other in recent if other in live), None)

    def _recent(
        self, own: Path, ours: AbstractSet[str], device_ids: Collection[str]
    ) -> list[tuple[str, str]]:
        """(device, resource) of records at most RECENT_S older than our own. For a thread."""
        names = {own.name, *map(record_name, ours)}
        paths = [p for p in self._folder.glob(f"{_PREFIX}*.json") if p.name not in names]
        if not paths:
            return []
        now_ns, recent = own.lstat().st_mtime_ns, []
        for path in sorted(paths):
            with suppress(FileNotFoundError):
                if now_ns - path.lstat().st_mtime_ns <= RECENT_S * 1e9:
                    other = _parse(_read(path))
                    if other is not None and other.boot_id == self._boot_id:
                        given = other.device_ids.intersection(device_ids)
                        recent += [(device_id, other.resource) for device_id in sorted(given)]
        return recent

    async def _take_over(self, resource: str) -> None:
        """Start with the file's present content: another agent may have served the resource."""
        with suppress(OSError):
            data = await read_plain(self._folder / record_name(resource), _LIMIT) or b""
            file = _parse(data)
            if file and (file.resource, file.boot_id) == (resource, self._boot_id):
                before = self._given.setdefault(resource, {})
                before.update({i: _LONG_AGO for i in file.device_ids if i not in before})

    async def keep(self, holders: Mapping[str, PodOwner]) -> None:
        """Remove the devices that no pod holds any longer, except those allocated just now."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            for resource, given in list(self._given.items()):
                free = {
                    i
                    for i, at in given.items()
                    if (i not in holders or holders[i].resource != resource)
                    and now - at >= CONFIRM_WITHIN_S
                }
                if free:
                    left = {i: at for i, at in given.items() if i not in free}
                    self._given[resource] = left
                    if not left or resource not in self._unwritten:
                        await self._write(resource)

    async def _write(self, resource: str) -> None:
        given = self._given[resource]
        path = self._folder / record_name(resource)
        document = {"bootId": self._boot_id, "resource": resource, "deviceIds": sorted(given)}
        try:
            if given:
                await write_atomic(path, json.dumps(document).encode(), _FILE_MODE)
                self._unwritten.pop(resource, None)
                self._written.add(resource)
            else:
                await self._remove(resource, path)
        except OSError as error:
            logs.emit_once(AllocationNotRecorded(error=with_advice(error)), "")
            return
        logs.forget(AllocationNotRecorded, "")

    async def _remove(self, resource: str, path: Path) -> None:
        """Remove a file, unless another agent has written it since this one read it."""
        del self._given[resource]
        self._written.discard(resource)
        before = self._unwritten.pop(resource, None)
        if before is None or await read_plain(path, _LIMIT) == before:
            await in_folder(self._folder, lambda: path.unlink(missing_ok=True))

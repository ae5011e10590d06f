"""Which devices kubelet has allocated to pods, by its device manager's checkpoint file.

Kubelet reads this file when it starts, before it knows any pod, so it is also valid while the API
server is unavailable. It may name devices of pods that have ended, since kubelet writes it only
when it allocates devices or receives a list from a plugin. The agent only reads the file.

Format (pkg/kubelet/cm/devicemanager/checkpoint in Kubernetes): JSON, ``Data.PodDeviceEntries`` is
a list of objects with ``PodUID``, ``ContainerName``, ``ResourceName`` and ``DeviceIDs``. The latter
maps NUMA nodes to lists of ids; up to Kubernetes 1.19 it was one list of ids.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.attrs_classes import frozen
from agent.plain_files import open_plain
from agent.roots import Roots

LIMIT = 8 * 2**20
"""Larger files (bytes) are not read: 4,096 allocated devices make about 2 MiB."""


@frozen
class Claim:
    """A device that the checkpoint names as allocated to a pod."""

    resource: str
    device_id: str
    pod_uid: str

    @property
    def order(self) -> tuple[str, str]:
        """Sort key of claims to one device."""
        return self.resource, self.pod_uid


Claims = frozenset[Claim]


class CheckpointReader:
    """Reads the file again only when it has changed. For one thread at a time."""

    def __init__(self, roots: Roots) -> None:
        self._path = roots.kubelet_checkpoint
        self._seen: tuple[int, ...] | None = None
        self._claims: Claims | None = None

    def read(self) -> Claims | None:
        """All devices that the file names as allocated; None if it cannot be used.

        That is a file that is missing, unreadable, not a regular file, too large or damaged.
        """
        try:
            with closing(_Opened(self._path)) as opened:
                if opened.identity != self._seen:
                    self._claims = _parse(opened.content())
                    self._seen = opened.identity
        except OSError:
            self._seen = self._claims = None
        return self._claims


class _Opened:
    """The file, opened without following a symbolic link; a FIFO does not block. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_plain(path)
        facts = os.fstat(self._descriptor)
        self._is_usable = stat.S_ISREG(facts.st_mode) and facts.st_size <= LIMIT
        self.identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)

    def content(self) -> bytes:
        """The whole content; empty if it is not a regular file, or too large."""
        if not self._is_usable:
            return b""
        with open(self._descriptor, "rb", closefd=False) as file:
            data = file.read(LIMIT + 1)
        return data if len(data) <= LIMIT else b""

    def close(self) -> None:
        os.close(self._descriptor)


def _parse(data: bytes) -> Claims | None:
    try:
        return frozenset(_claims(json.loads(data)["Data"]["PodDeviceEntries"] or []))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _claims(entries: list[dict[str, Any]]) -> Iterator[Claim]:
    for entry in entries:
        ids = entry["DeviceIDs"] or ()
        lists = ids.values() if isinstance(ids, dict) else (ids,)
        for device_id in (i for device_ids in lists for i in device_ids or ()):
            claim = Claim(entry["ResourceName"], device_id, entry["PodUID"])
            if not all(isinstance(t, str) for t in (claim.resource, device_id, claim.pod_uid)):
                raise TypeError("a name in the checkpoint is not a string")
            yield claim

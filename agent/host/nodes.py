"""Reads which device nodes the host has, and whether its ``/dev`` is visible at all.

There are three cases, by the type of the file system at ``/dev`` (``/proc/self/mountinfo``):

* The kernel's devtmpfs together with its sysfs, or a laid-out tree: it has every node, and changes
  with the host.
* A tmpfs with nodes of the host: a privileged container. Its runtime copied the nodes that existed
  when the container started; later ones are missing, though the host has them. Therefore nodes that
  sysfs announces count as well: devtmpfs has a node for each ``dev`` attribute.
* A tmpfs with only the nodes of every container (OCI runtime specification, "Default Devices"):
  nothing of the host is visible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from agent.host import sysfs
from agent.model.device import Device
from agent.model.nodes import HostNodes
from agent.roots import Roots

_FOLDERS = ("vfio", "vfio/devices", "infiniband")
"""Folders whose nodes all matter."""
_SINGLE = ("vhost-net", "net/tun", "iommu")
_MISC = {"vhost-net": "vhost-net", "net/tun": "tun", "iommu": "iommu", "vfio/vfio": "vfio"}
"""Node -> its entry of ``class/misc``, which exists while its module is loaded."""
_VFIO_DEVICE = re.compile(r"vfio\d+")
_IN_EVERY_CONTAINER = frozenset(
    {
        *("console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm"),
        *("stderr", "stdin", "stdout", "termination-log", "tty", "urandom", "zero"),
    }
)
_FOLDERS_OF_NODES = frozenset({"vfio", "infiniband", "net"})


class DevView(StrEnum):
    """What ``/dev`` shows of the host."""

    LIVE = "live"
    """All nodes, always up to date."""
    COPY = "copy"
    """The nodes that existed when this container started."""
    HIDDEN = "hidden"
    """Nothing."""


def view_of(roots: Roots) -> DevView:
    """What ``/dev`` shows of the host; computed once, since mounts of a container do not change."""
    if not roots.is_real_host:
        return DevView.LIVE if roots.dev.is_dir() else DevView.HIDDEN
    return _real_view(roots.dev, roots.sys, roots.below("/proc/self/mountinfo"))


@lru_cache(maxsize=8)
def _real_view(dev: Path, sys: Path, mountinfo: Path) -> DevView:
    mounted = {folder: _file_system_at(str(folder), mountinfo) for folder in (dev, sys)}
    if mounted == {dev: "devtmpfs", sys: "sysfs"}:  # both of the same kernel
        return DevView.LIVE
    return DevView.COPY if _shows_more_than_a_container_has(dev) else DevView.HIDDEN


def _file_system_at(folder: str, mountinfo: Path) -> str | None:
    """The type of the topmost file system mounted at ``folder`` (proc_pid_mountinfo(5))."""
    topmost = None
    try:
        lines = mountinfo.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        mount, _, file_system = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) > 4 and fields[4] == folder:  # later lines are mounted over earlier ones
            topmost = file_system.split(" ")[0]
    return topmost


def _shows_more_than_a_container_has(dev: Path) -> bool:
    try:
        entries = [e for e in dev.iterdir() if e.name not in _IN_EVERY_CONTAINER]
        return any(
            any(True for _ in e.iterdir()) if e.name in _FOLDERS_OF_NODES else not e.is_dir()
            for e in entries
        )
    except OSError:
        return False


class NodeReader:
    """Reads the host's nodes for each scan; unchanged results stay the same object."""

    def __init__(self) -> None:
        self._nodes = HostNodes()
        self._listed: dict[str, tuple[str, ...]] = {}
        self._single: frozenset[str] = frozenset()

    def read(
        self, sys: int, dev: int | None, view: DevView, devices: Iterable[Device], *, rdma_cm: bool
    ) -> HostNodes:
        """The nodes of ``devices``, and those that any host may have.

        ``sys`` and ``dev`` are open folders. Each folder is listed once for all devices.
        """
        view = DevView.HIDDEN if dev is None else view
        listed: dict[str, tuple[str, ...]] = {}
        single: frozenset[str] = frozenset()
        if dev is not None and view is not DevView.HIDDEN:
            listed = {folder: self._list(dev, folder) for folder in _FOLDERS}
            named = (*_SINGLE, *_named_one_by_one(devices))
            single = frozenset(name for name in named if sysfs.exists(dev, name))
        if view is not DevView.LIVE:
            single |= frozenset(_by_sysfs(sys))
        if view is DevView.COPY:
            single |= frozenset(_named_one_by_one(devices))
        previous = self._nodes
        same = listed == self._listed and single == self._single
        self._listed, self._single = listed, single
        self._nodes = HostNodes(
            is_seen=view is not DevView.HIDDEN,
            names=previous.names if same else _below(listed, single),
            rdma_cm=rdma_cm,
            has_vfio_groups=view is DevView.LIVE or not _has_devices_only(sys),
        )
        return self._nodes

    def _list(self, dev: int, folder: str) -> tuple[str, ...]:
        with sysfs.folder(folder, dev) as opened:
            previous = self._listed.get(folder, ())
            return () if opened is None else sysfs.listing_again(opened, previous)


def _below(listed: Mapping[str, tuple[str, ...]], single: frozenset[str]) -> frozenset[str]:
    return single.union(f"{folder}/{name}" for folder, names in listed.items() for name in names)


def read_again(
    dev: int | None, view: DevView, nodes: HostNodes, names: Collection[str]
) -> HostNodes:
    """``nodes`` with those of ``names`` (paths below ``/dev``) checked again.

    Only a live view is read: a copy cannot show changes.
    """
    if dev is None or view is not DevView.LIVE:
        return nodes
    present = {name for name in names if sysfs.exists(dev, name)}
    if present == nodes.names.intersection(names):
        return nodes
    kept = nodes.names.difference(names) | present
    return HostNodes(nodes.is_seen, kept, nodes.rdma_cm, nodes.has_vfio_groups)


def _named_one_by_one(devices: Iterable[Device]) -> Iterator[str]:
    """Nodes at the top of ``/dev`` that sysfs names for a device."""
    for device in [d for d in devices if d.uio or d.vdpa]:
        yield from device.uio
        for vdpa in device.vdpa:
            if vdpa.char_device is not None:
                yield vdpa.char_device.removeprefix("/dev/")


def _by_sysfs(sys: int) -> Iterator[str]:
    """Nodes that the host has according to sysfs."""
    for group in sysfs.names(sys, "class/vfio"):
        yield f"vfio/{group}"
    for name in sysfs.names(sys, "class/vfio-dev"):
        if sysfs.exists(sys, f"class/vfio-dev/{name}/dev"):
            yield f"vfio/devices/{name}"
    for folder in ("class/infiniband_verbs", "class/infiniband_mad", "class/infiniband_cm"):
        for name in sysfs.names(sys, folder):
            yield f"infiniband/{name}"
    for node, name in _MISC.items():
        if sysfs.exists(sys, f"class/misc/{name}"):
            yield node


def _has_devices_only(sys: int) -> bool:
    """Whether vfio was built without groups (CONFIG_VFIO_GROUP): the class of groups is missing."""
    return not sysfs.exists(sys, "class/vfio") and any(
        _VFIO_DEVICE.fullmatch(name) for name in sysfs.names(sys, "class/vfio-dev")
    )

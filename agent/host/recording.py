"""Records what a scan reads of a host, so that the same scan on another machine sees the same host.

The reads of the scan are observed, so that a recording has everything that a scan needs and nothing
else. Data that could identify a machine or a person (addresses in names, switch ids made from them)
is replaced by numbers, the same number for the same value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Any

import attrs

from agent.attrs_classes import frozen
from agent.host import altnames, devlink
from agent.model.snapshot import Snapshot
from agent.roots import Roots

_MAX_LINKS = 40  # as many as the kernel follows (path_resolution(7))
_MAX_CONTENT_BYTES = 1 << 16
_ADDRESS_IN_NAME = re.compile(r"(?<=enx)[0-9a-f]{12}")
_SWITCH_ID = "phys_switch_id"
_DEVICES = "sys/devices/"


@frozen
class Entry:
    """One entry of a recorded tree."""

    kind: str
    """``folder``, ``file`` or ``link``."""
    content: bytes = b""
    """A file's content, or a link's target."""


class Recorder:
    """Replaces :mod:`os` in :mod:`agent.host.sysfs`, and notes the path of every call."""

    def __init__(self, roots: Roots) -> None:
        self._root = roots.host
        self._paths: dict[str, None] = {}
        self._listed: dict[str, None] = {}
        self._read: set[str] = set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is os itself
        return getattr(os, name)

    def open(self, path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        """Open, and note the path."""
        whole = self._note(path, dir_fd)
        if not flags & os.O_DIRECTORY:
            self._read.add(whole)
        return os.open(path, flags, dir_fd=dir_fd)

    def readlink(self, path: str, *, dir_fd: int | None = None) -> str:
        """Read a link, and note its path."""
        self._note(path, dir_fd)
        return os.readlink(path, dir_fd=dir_fd)

    def access(self, path: str, mode: int, *, dir_fd: int | None = None) -> bool:
        """Check whether a path exists, and note it."""
        self._note(path, dir_fd)
        return os.access(path, mode, dir_fd=dir_fd)

    def listdir(self, folder: int) -> list[str]:
        """List a folder, and note it."""
        self._listed[_path_of(folder)] = None
        return os.listdir(folder)

    def add(self, path: Path) -> None:
        """Note a file that the scan does not read."""
        self._read.add(self._note(path, None))

    def _note(self, path: str | Path, dir_fd: int | None) -> str:
        whole = str(path) if dir_fd is None else f"{_path_of(dir_fd)}/{path}"
        self._paths[whole] = None
        return whole

    def tree(self) -> Mapping[str, Entry]:
        """Everything that was read below ``sys`` and ``dev``, by path below the root."""
        tree = _Tree(self._root)
        for path in self._paths:
            tree.add(path, content=path in self._read)
        for folder in self._listed:
            tree.add_listing(folder)
        tops = ("sys", "dev")
        return {p: e for p, e in sorted(tree.entries.items()) if p.partition("/")[0] in tops}


class _Tree:
    """Entries by path, with every link that leads to them."""

    def __init__(self, root: Path) -> None:
        self._top = str(root.resolve()).rstrip("/")
        self.entries: dict[str, Entry] = {}
        self._real: dict[str, str | None] = {self._top: self._top}

    def add(self, path: str, *, content: bool) -> None:
        """Add one path with the links that lead to it, if it exists."""
        folder, _, name = path.rpartition("/")
        real = self._real_folder(folder)
        if real is not None:
            self._add_name(real, name, content=content)

    def add_listing(self, folder: str) -> None:
        """Add the entries of a folder, except attributes of devices that were not read."""
        real = self._real_folder(folder)
        if real is None:
            return
        is_device = self._below(real).startswith(_DEVICES)
        for entry in os.scandir(real):
            if entry.is_symlink() or entry.is_dir() or not is_device:
                self._add_entry(entry.path)

    def _real_folder(self, folder: str) -> str | None:
        """The real path of a folder; adds the links that lead to it. None = outside the root."""
        if folder not in self._real:
            above, slash, name = folder.rpartition("/")
            real = self._real_folder(above) if slash else None
            self._real[folder] = None if real is None else self._add_name(real, name)
        return self._real[folder]

    def _add_name(
        self, folder: str, name: str, *, content: bool = False, depth: int = 0
    ) -> str | None:
        """Add what a path from a real folder leads to; returns its real path, None = outside."""
        first, _, rest = name.partition("/")
        if rest:
            real = self._add_name(folder, first, depth=depth)
            return real and self._add_name(real, rest, content=content, depth=depth)
        path = f"{folder}/{name}"
        target = self._add_entry(path, content=content)
        if target is None:
            return path
        whole = os.path.normpath(f"{folder}/{target}")
        if depth == _MAX_LINKS or not whole.startswith(f"{self._top}/"):
            return None
        above, _, last = whole.rpartition("/")
        real = self._real_folder(above)
        if real is None:
            return None
        return self._add_name(real, last, content=content, depth=depth + 1)

    def _add_entry(self, path: str, *, content: bool = False) -> str | None:
        """Add the entry at a path whose folder is real; returns its target if it is a link."""
        try:
            mode = os.lstat(path).st_mode
            if S_ISLNK(mode):
                target = self._relative(path, str(Path(path).readlink()))
                self._put(path, Entry("link", target.encode()))
                return target
            if S_ISDIR(mode):
                self._put(path, Entry("folder"))
            elif not content:
                self._put(path, Entry("file"))
            elif S_ISREG(mode):
                self._put(path, Entry("file", _content(path)))
        except OSError:  # removed or not readable meanwhile: treated as absent
            pass
        return None

    def _put(self, path: str, entry: Entry) -> None:
        below = self._below(path)
        if below not in self.entries or entry.content:
            self.entries[below] = entry

    def _below(self, path: str) -> str:
        return path[len(self._top) + 1 :]

    def _relative(self, path: str, target: str) -> str:
        """A link's target relative to the link; absolute targets are converted."""
        if not target.startswith("/"):
            return target
        return os.path.relpath(f"{self._top}{target}", Path(path).parent)


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _MAX_CONTENT_BYTES)
    finally:
        os.close(file)


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def answers_of_kernel(snapshot: Snapshot) -> Mapping[str, Entry]:
    """The facts that a live scan gets by netlink, as the files that a laid-out host has instead."""
    routes = [
        _ROUTE_HEADER,
        *map(_route_line, snapshot.default_route_netdevs),
        *(_route_line(name, *_A_NETWORK) for name in snapshot.routed_netdevs),
    ]
    files = {"proc/net/route": Entry("file", "".join(f"{r}\n" for r in routes).encode())}
    if names := _altnames(snapshot):
        files[altnames.FILE] = Entry("file", json.dumps(names, indent=1, sort_keys=True).encode())
    if facts := _devlink_facts(snapshot):
        files[devlink.FILE] = Entry("file", json.dumps(facts, indent=1, sort_keys=True).encode())
    return files


_ROUTE_HEADER = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"


_ANYWHERE = "00000000"
_A_NETWORK = ("000200C0", "00FFFFFF")
"""192.0.2.0/24, reserved for examples (RFC 5737): the recording does not show the real network."""


def _route_line(netdev: str, destination: str = _ANYWHERE, mask: str = _ANYWHERE) -> str:
    """A route that is up (RTF_UP), by default the default route; without its gateway."""
    return "\t".join((netdev, destination, "00000000", "0001", "0", "0", "0", mask, *"000"))


def _altnames(snapshot: Snapshot) -> dict[str, list[str]]:
    """Netdev of a PF -> its alternative names."""
    netdevs = (netdev for pf in snapshot.pfs.values() for netdev in pf.netdevs)
    return {netdev.name: list(netdev.altnames) for netdev in netdevs if netdev.altnames}


def _devlink_facts(snapshot: Snapshot) -> dict[str, Any]:
    info = {
        f"pci/{d.id}": {"versions": {"running": {"fw.app.name": d.ddp_profile}}}
        for d in snapshot.devices
        if d.ddp_profile
    }
    param = {
        f"pci/{d.id}": [{"name": devlink.ENABLE_RDMA, "values": [{"value": d.rdma_enabled}]}]
        for d in snapshot.devices
        if d.rdma_enabled is not None
    }
    return {"info": info, "param": param} if info or param else {}


def anonymous(tree: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """The same tree with hardware addresses replaced by numbers, in order of appearance."""
    numbers: dict[str, str] = {}

    def hide(text: str) -> str:
        return _ADDRESS_IN_NAME.sub(lambda m: _number(m[0], numbers), text)

    return {hide(path): _hidden(path, entry, hide, numbers) for path, entry in tree.items()}


def _hidden(path: str, entry: Entry, hide: Callable[[str], str], numbers: dict[str, str]) -> Entry:
    text = entry.content.decode(errors="replace")
    if entry.kind == "file" and text and path.endswith(f"/{_SWITCH_ID}"):
        return attrs.evolve(entry, content=_number(text.strip(), numbers).encode())
    shown = hide(text)
    return entry if shown == text else attrs.evolve(entry, content=shown.encode())


def _number(address: str, numbers: dict[str, str]) -> str:
    """A replacement of twelve digits, the same for the same address."""
    return numbers.setdefault(address, f"{len(numbers) + 1:012d}")

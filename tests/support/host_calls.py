"""Notes what a scan asks the host for, call by call, while the real calls are made."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import attrs

from agent.host import sysfs


@attrs.define
class HostCalls:
    """Stands in for :mod:`os` in the one module that reads the host."""

    files: list[str] = attrs.field(factory=list)
    """Public names of the attributes that were opened, in order."""
    links: list[str] = attrs.field(factory=list)
    """Public names of the links that were read, in order."""
    counts: Counter[str] = attrs.field(factory=Counter)
    """Calls by name, those that found nothing too."""
    _folders: dict[int, str] = attrs.field(factory=dict)

    def __getattr__(self, name: str) -> object:
        """Everything that is not counted."""
        return getattr(os, name)

    def open(self, path: str, flags: int, *, dir_fd: int | None = None) -> int:
        """Open, and remember the public name."""
        self.counts["open"] += 1
        descriptor = os.open(path, flags, dir_fd=dir_fd)
        if flags & os.O_DIRECTORY:
            self._folders[descriptor] = self._named(path, dir_fd)
        else:
            self.files.append(self._named(path, dir_fd))
        return descriptor

    def readlink(self, path: str, *, dir_fd: int | None = None) -> str:
        """Read a link, and remember the public name."""
        self.counts["readlink"] += 1
        target = os.readlink(path, dir_fd=dir_fd)
        self.links.append(self._named(path, dir_fd))
        return target

    def listdir(self, path: int) -> list[str]:
        """List a folder."""
        self.counts["listdir"] += 1
        return os.listdir(path)

    def access(self, path: str, mode: int, *, dir_fd: int | None = None) -> bool:
        """Ask whether something exists."""
        self.counts["access"] += 1
        return os.access(path, mode, dir_fd=dir_fd)

    def _named(self, path: str, dir_fd: int | None) -> str:
        return str(path) if dir_fd is None else f"{self._folders[dir_fd]}/{path}"


@contextmanager
def host_calls() -> Iterator[HostCalls]:
    """Note the calls that are made within the block."""
    calls = HostCalls()
    with mock.patch.object(sysfs, "os", calls):
        yield calls

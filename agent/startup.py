"""A lean process: imports without what the agent has no use for, one heap, a loop that is not held.

Libraries import modules for features that are not used here. What is hidden from them while they
are imported is there again for whoever asks for it afterwards (docs/adr/0009-lean-imports.md).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Any

_NOT_USED = (
    "ssl",  # asyncio's and grpclib's: 4 MiB of OpenSSL, and all that is spoken to are Unix sockets
    "pydantic",  # betterproto2's, for messages that are pydantic's dataclasses: 8 MiB
)
_METADATA = "importlib.metadata"
_DEFERRED = (
    "aiofiles.tempfile",  # temporary files, and with them all that compresses files
    "attr.validators",  # a dozen classes
    "attrs.validators",
)
_M_ARENA_MAX = -8  # glibc's malloc.h
_SWITCH_INTERVAL_S = 0.001


@contextmanager
def defer_unused_imports() -> Iterator[None]:
    """Import inside: no TLS, no pydantic, no collections of objects that stay anyway.

    What was imported is frozen at the end, or else the next allocation would have all of it walked
    through at once, for 20 ms.
    """
    collecting = gc.isenabled()
    gc.disable()
    hidden: dict[str, ModuleType | None] = {n: None for n in _NOT_USED if n not in sys.modules}
    stand_ins = (_LightMetadata(_METADATA), *map(_Deferred, _DEFERRED))
    hidden |= {s.__name__: s for s in stand_ins if s.__name__ not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type] # None is the documented "not there"
    try:
        yield
    finally:
        for name, stand_in in hidden.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
        gc.freeze()
        if collecting:
            gc.enable()


@contextmanager
def stub_find_library() -> Iterator[None]:
    """Import inside what looks for C libraries, and takes those of this process if it finds none.

    ``ctypes.util`` finds them by running other programs, and imports all that compresses files.
    """
    import ctypes  # noqa: PLC0415 - only for those who need it anyway

    name = f"{ctypes.__name__}.util"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = vars(ctypes)["util"] = stand_in = _Deferred(name)
    vars(stand_in)["find_library"] = lambda _: None
    try:
        yield
    finally:
        del vars(stand_in)["find_library"]
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


def use_one_malloc_arena() -> None:
    """Let glibc's malloc serve all threads from one heap; other C libraries are left alone.

    Scans and passes over many devices run in threads. By default each gets a heap of its own, in
    which what it freed stays: 2 MiB on a node of 4096 VFs.
    """
    import ctypes  # noqa: PLC0415 - inotify's library has it anyway

    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def shorten_switch_interval() -> None:
    """Let whoever waits for a thread at work wait for a millisecond, not for Python's five.

    Scans and passes over many devices run in threads, and kernel events come in on the loop.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


class _Deferred(ModuleType):
    """Stands in for a module until something is asked of it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real module has
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)


class _LightMetadata(_Deferred):
    """Stands in for ``importlib.metadata``, which takes e-mail and zip parsers to tell a version.

    Everything but a version that a folder's name tells comes from the real module.
    """

    def version(self, name: str) -> str:
        """The version of an installed distribution."""
        return _version_of_folder(name) or str(self._real().version(name))


def _version_of_folder(name: str) -> str | None:
    """The version in the name of ``<name>-<version>.dist-info``, of the first on the path."""
    head, tail = f"{name}-", ".dist-info"
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")  # noqa: PTH208 - without pathlib's objects
        except OSError:
            continue
        for entry in entries:
            if entry.startswith(head) and entry.endswith(tail):
                return entry[len(head) : -len(tail)]
    return None

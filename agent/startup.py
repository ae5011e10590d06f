"""Process settings and imports that make the agent smaller and faster; ADR 9 has the figures."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

_NOT_INSTALLED = (
    "ssl",  # asyncio's and grpclib's: the agent speaks over Unix sockets only
    "pydantic",  # betterproto2's, for messages that are pydantic dataclasses
)
_METADATA = "importlib.metadata"  # betterproto2's, for its own version: parsers of e-mail and zip
_M_ARENA_MAX = -8  # glibc's malloc.h
_SWITCH_INTERVAL_S = 0.001


@contextmanager
def import_leanly() -> Iterator[None]:
    """Import inside without TLS and pydantic, and without garbage collection.

    The libraries work without both. ``importlib.metadata`` is loaded only for more than a version.
    Afterwards all can be imported as usual: the HTTP server needs ``ssl``. The imported objects
    stay for the life of the process, so they are frozen: no later collection walks through them.
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        with ExitStack() as stack:
            for name in _NOT_INSTALLED:
                stack.enter_context(_put_in_place(name, None))
            stack.enter_context(import_lazily(_METADATA, version=_installed_version))
            yield
    finally:
        gc.freeze()
        if was_collecting:
            gc.enable()


@contextmanager
def import_lazily(name: str, **attributes: object) -> Iterator[None]:
    """Let ``import name`` inside load the module only when an attribute is read (PEP 562).

    For a module that a library imports and then uses in few of its functions. The ``attributes``
    that are given do not load it.
    """
    lazy = ModuleType(name)

    def load(attribute: str) -> object:
        if sys.modules.get(name) is lazy:
            del sys.modules[name]
        return getattr(import_module(name), attribute)

    vars(lazy).update(attributes, __getattr__=load)
    with _put_in_place(name, lazy):
        yield


def _installed_version(distribution: str) -> str:
    """The version in the name of ``<distribution>-<version>.dist-info``, of the first on the path.

    If no folder is spelled so, the real module is asked.
    """
    prefix, suffix = f"{distribution}-", ".dist-info"
    for folder in map(Path, sys.path):
        for path in folder.glob(f"{prefix}*{suffix}"):
            return path.name.removeprefix(prefix).removesuffix(suffix)
    sys.modules.pop(_METADATA, None)
    return str(import_module(_METADATA).version(distribution))


@contextmanager
def _put_in_place(name: str, module: ModuleType | None) -> Iterator[None]:
    """Let ``import name`` inside give ``module``; None = not installed, as Python documents it.

    A module that is imported already stays.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = module  # type: ignore[assignment] # documented, but not typed
    try:
        yield
    finally:
        if sys.modules.get(name, name) is module:
            del sys.modules[name]


def use_one_malloc_arena() -> None:
    """Let glibc's malloc serve all threads from one arena; does nothing with another C library.

    Scans and passes over many devices run in threads. By default each thread gets an arena, and
    the memory that the thread frees stays in it: 2 MiB on a node with 4096 VFs.
    """
    import ctypes  # noqa: PLC0415 - the inotify library imports it anyway

    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def shorten_switch_interval() -> None:
    """Let a thread that computes give way after 1 ms, not after Python's default of 5 ms.

    Scans and passes over many devices run in threads, while kernel events arrive on the loop.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)

"""Reads relative to an open folder: the basis of every reader of host facts.

Folders are file descriptors, so that the kernel resolves each path once. sysfs may change at any
time during a scan: an attribute that cannot be read is absent, never an error. Errors are raised if
ignoring them would make the host look as if it had no devices: exhaustion (no descriptors, no
memory), and a failure to open an existing folder of functions, of netdevs, or of one function.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENODEV, errno.ENXIO})
"""Errors on opening a function's folder which mean that there is no such function."""
_INT = range(-(2**31), 2**31)
_ATTRIBUTE_SIZE = 256  # every attribute that is read here is one short line
_TABLE_LIMIT = 64 * 2**20  # half a million routes, of which the default ones come first
_TABLE_PART = 2**16


@contextmanager
def observed(calls: Any) -> Iterator[None]:  # noqa: ANN401 - any object with the functions of os
    """Replace :mod:`os` in this module by ``calls``, which records the reads of a scan."""
    global os  # noqa: PLW0603 - an argument would slow down the thousands of reads
    system, os = os, calls
    try:
        yield
    finally:
        os = system


def raise_if_exhausted(error: OSError) -> None:
    """Raise the error again if it means that this process is out of descriptors or memory."""
    if error.errno in _EXHAUSTED:
        raise error


def open_folder(name: str | Path, within: int | None = None) -> int | None:
    """A descriptor of a folder, to be closed by the caller; None if there is no such folder."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return None


def open_function(name: str, bus: int) -> int | None:
    """A descriptor of a function's folder, to be closed by the caller; None if it is gone.

    Raises OSError if the folder exists but cannot be opened.
    """
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=bus)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


@contextmanager
def class_folder(name: str | Path, within: int | None = None) -> Iterator[int | None]:
    """A folder of devices, such as a class, closed at the end of the block; None = no such folder.

    Raises OSError if it exists but cannot be opened: its devices are not gone.
    """
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def folder(name: str | Path, within: int | None = None) -> Iterator[int | None]:
    """A folder, closed at the end of the block; None if there is no such folder."""
    descriptor = open_folder(name, within)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def read_raw(within: int, name: str) -> bytes | None:
    """An attribute as the kernel wrote it, with its newline."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return None
    try:
        return os.read(file, _ATTRIBUTE_SIZE)
    except OSError as error:
        raise_if_exhausted(error)
        return None
    finally:
        os.close(file)


def read_text(within: int, name: str) -> str | None:
    """An attribute without surrounding blanks; an empty one counts as absent."""
    raw = read_raw(within, name)
    return (raw.decode(errors="replace").strip() or None) if raw else None


def read_int(within: int, name: str, base: int = 10) -> int | None:
    """An attribute that is one number; None if it is absent or something else.

    All attributes that are read here are an ``int`` in the kernel: larger numbers are invalid.
    """
    raw = read_raw(within, name)
    try:
        number = int(raw or b"", base)
    except ValueError:
        return None
    return number if number in _INT else None


def link_target(within: int, name: str) -> str | None:
    """The target of a symbolic link, as written."""
    try:
        return os.readlink(name, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return None


def link_name(within: int, name: str) -> str | None:
    """The last part of a symbolic link's target: how sysfs names drivers, groups and functions."""
    try:
        return os.readlink(name, dir_fd=within).rpartition("/")[2]
    except OSError as error:
        raise_if_exhausted(error)
        return None


def exists(within: int, name: str) -> bool:
    """Whether the name exists; does not open it."""
    return os.access(name, os.F_OK, dir_fd=within)


def listing(within: int) -> list[str]:
    """The names in an open folder, in no order."""
    try:
        return os.listdir(within)
    except OSError as error:
        raise_if_exhausted(error)
        return []


def listing_again(within: int, before: tuple[str, ...]) -> tuple[str, ...]:
    """The names in an open folder that was listed before, in no order. Raises OSError.

    An unchanged listing is the same tuple, and names that existed before are the same objects,
    since long listings are kept.
    """
    now = tuple(os.listdir(within))
    if now == before:
        return before
    objects = {name: name for name in before}
    return tuple(map(objects.get, now, now))


def names(within: int, name: str) -> list[str]:
    """The names in a folder, sorted; none if there is no such folder."""
    descriptor = open_folder(name, within)
    if descriptor is None:
        return []
    try:
        return sorted(listing(descriptor))
    finally:
        os.close(descriptor)


def class_names(within: int, name: str) -> list[str]:
    """The names in a folder of devices, such as a class, sorted; none if there is no such folder.

    Raises OSError if it exists but cannot be listed.
    """
    with class_folder(name, within) as descriptor:
        return [] if descriptor is None else sorted(os.listdir(descriptor))  # noqa: PTH208 - relative to an open folder


def read_all(within: int, name: str) -> bytes:
    """A file such as a table in procfs, up to a size limit; empty if there is no such file."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return b""
    content = bytearray()
    try:
        while len(content) < _TABLE_LIMIT and (part := os.read(file, _TABLE_PART)):
            content += part
    except OSError as error:
        raise_if_exhausted(error)
    finally:
        os.close(file)
    return bytes(content)

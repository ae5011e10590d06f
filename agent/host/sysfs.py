"""Reads relative to an open folder: what every reader of host facts is made of.

Folders are file descriptors, so that the kernel walks each path once. sysfs changes under a reader
at any time: an attribute that cannot be read is absent, never an error. Raised is what would make a
host look as if it had no devices: exhaustion (no descriptors, no memory), and a fault of a folder
that lists functions or netdevs, or of a function's own folder, unless it is just not there.
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
"""Of a function's folder: the function is gone, or there never was one."""
_INT = range(-(2**31), 2**31)
_ATTRIBUTE_SIZE = 256  # every attribute that is read here is one short line
_TABLE_LIMIT = 64 * 2**20  # half a million routes, of which the default ones come first
_TABLE_PART = 2**16


@contextmanager
def observed(calls: Any) -> Iterator[None]:  # noqa: ANN401 - whatever has the functions of os
    """Put ``calls`` in the place of :mod:`os` here, to see what is read: for recording a host."""
    global os  # noqa: PLW0603 - costs the thousands of reads nothing
    system, os = os, calls
    try:
        yield
    finally:
        os = system


def raise_if_exhausted(error: OSError) -> None:
    """Raise the error again where it says that this process has run out of something."""
    if error.errno in _EXHAUSTED:
        raise error


def open_folder(name: str | Path, within: int | None = None) -> int | None:
    """A descriptor of a folder, to be closed by the caller; None where there is none."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return None


def open_function(name: str, bus: int) -> int | None:
    """A descriptor of a function's folder, to be closed by the caller; None where it is gone.

    Raises OSError where it is there but cannot be opened.
    """
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=bus)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


@contextmanager
def class_folder(name: str | Path, within: int | None = None) -> Iterator[int | None]:
    """A folder that lists what a host has, closed at the end of the block; None = there is none.

    Raises OSError where it is there but cannot be opened: what it lists is not gone with that.
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
    """A folder that is closed at the end of the block; None where there is none."""
    descriptor = open_folder(name, within)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def read_raw(within: int, name: str) -> bytes | None:
    """An attribute as the kernel wrote it, newline and all."""
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
    """An attribute that is one number; None where it is absent or something else.

    The kernel keeps all that are read here as an int: one that is none is something else.
    """
    raw = read_raw(within, name)
    try:
        number = int(raw or b"", base)
    except ValueError:
        return None
    return number if number in _INT else None


def link_target(within: int, name: str) -> str | None:
    """Where a symbolic link points to, as it is written."""
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
    """Whether there is anything of that name; asks the kernel without opening it."""
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

    It is the very listing of before where nothing changed, and names that were there are the same
    objects: long listings are kept.
    """
    now = tuple(os.listdir(within))
    if now == before:
        return before
    known = dict(zip(before, before, strict=True))
    return tuple(map(known.get, now, now))


def names(within: int, name: str) -> list[str]:
    """The names in a folder, sorted; none where there is no such folder."""
    descriptor = open_folder(name, within)
    if descriptor is None:
        return []
    try:
        return sorted(listing(descriptor))
    finally:
        os.close(descriptor)


def class_names(within: int, name: str) -> list[str]:
    """The names in a folder that lists what a host has, sorted; none where there is no such folder.

    Raises OSError where it is there but cannot be listed.
    """
    with class_folder(name, within) as descriptor:
        return [] if descriptor is None else sorted(os.listdir(descriptor))  # noqa: PTH208 - relative to an open folder


def read_all(within: int, name: str) -> bytes:
    """A file such as a table in procfs, up to its limit; empty where there is none."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=within)
    except OSError as error:
        raise_if_exhausted(error)
        return b""
    found = bytearray()
    try:
        while len(found) < _TABLE_LIMIT and (part := os.read(file, _TABLE_PART)):
            found += part
    except OSError as error:
        raise_if_exhausted(error)
    finally:
        os.close(file)
    return bytes(found)

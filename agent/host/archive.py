"""Recorded hosts as ``.tar.gz`` files: one host gives the same bytes, and unpacking is safe."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agent.errors import UsageError
from agent.host.recording import Entry

SUFFIXES = (".tar.gz", ".tgz")
_MAX_MEMBERS = 2_000_000
_MAX_FILE_BYTES = 1 << 20
_MAX_NAME = 1000
"""Short enough that no path made of two of them passes PATH_MAX."""
_TYPES = {"folder": tarfile.DIRTYPE, "file": tarfile.REGTYPE, "link": tarfile.SYMTYPE}


def write_archive(tree: Mapping[str, Entry], out: BinaryIO) -> None:
    """Write a tree, sorted, without times, owners or this machine's name."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=9) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, entry in sorted(tree.items()):
            member = tarfile.TarInfo(path)
            member.type = _TYPES[entry.kind]
            member.mode = 0o755 if entry.kind == "folder" else 0o644
            if entry.kind == "link":
                member.linkname = entry.content.decode()
                tar.addfile(member)
            else:
                member.size = len(entry.content) if entry.kind == "file" else 0
                tar.addfile(member, io.BytesIO(entry.content))


def is_archive(path: Path) -> bool:
    """Whether a host root is a recorded host and no folder."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def unpack(path: Path, folder: Path) -> None:
    """Lay a recorded host out below ``folder``, which must be empty.

    Nothing gets outside of it: a file from a stranger may be opened. Raises UsageError for one
    that is damaged, is no recording, or tries to. (The filters of tarfile came with Python 3.11.4.)
    """
    try:
        with tarfile.open(path, mode="r:gz") as tar:
            _lay_out(tar, folder)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is no recorded host: {error}") from error


def _lay_out(tar: tarfile.TarFile, folder: Path) -> None:
    """Write folders and files first, then links, none below another: so none is written through."""
    links: dict[Path, str] = {}
    for member in _checked(tar):
        place = folder / _inside(member.name)
        if member.issym():
            links[place] = member.linkname
        elif member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            with place.open("xb") as file:
                file.write(content.read() if content else b"")
    for place, target in links.items():
        if not links.keys().isdisjoint(place.parents):
            raise ValueError(f"{place.relative_to(folder)}: its folder is a link")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    _require_inside(links, folder)


def _checked(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Folders, small files and links only, with names of a reasonable length."""
    for number, member in enumerate(tar):
        if not (member.isdir() or member.isfile() or member.issym()):
            raise ValueError(f"{member.name}: neither folder, file nor link")
        if member.size > _MAX_FILE_BYTES or number >= _MAX_MEMBERS:
            raise ValueError("it is larger than any host")
        if len(member.name) > _MAX_NAME or len(member.linkname) > _MAX_NAME:
            raise ValueError("a name in it is longer than any in sysfs")
        yield member


def _inside(name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        raise ValueError(f"{name}: leads out of the host")
    return place


def _require_inside(links: Iterable[Path], folder: Path) -> None:
    """Where links lead is told once all are there: one may lead through others."""
    root = os.path.realpath(folder)
    for link in links:
        if not Path(os.path.realpath(link)).is_relative_to(root):
            raise ValueError(f"{link.relative_to(folder)}: leads out of the host")

"""Recorded hosts as ``.tar.gz`` files: one host gives the same bytes, and unpacking is safe."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from agent.errors import UsageError
from agent.host.recording import Entry

SUFFIXES = (".tar.gz", ".tgz")
_MAX_MEMBERS = 2_000_000
_MAX_FILE_BYTES = 1 << 20
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
    that is damaged, is no recording, or tries to.
    """
    if not hasattr(tarfile, "data_filter"):
        raise UsageError("recorded hosts need Python 3.11.4 or later")
    try:
        with tarfile.open(path, mode="r:gz") as tar:
            tar.extractall(folder, members=_checked(tar), filter="data")
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is no recorded host: {error}") from error


def _checked(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Folders, small files and links only; where they lead is checked by tarfile's own filter."""
    for number, member in enumerate(tar):
        if not (member.isdir() or member.isfile() or member.issym()):
            raise ValueError(f"{member.name}: neither folder, file nor link")
        if member.size > _MAX_FILE_BYTES or number >= _MAX_MEMBERS:
            raise ValueError("it is larger than any host")
        yield member

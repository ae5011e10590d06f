"""Recorded hosts as ``.tar.gz`` files: the output is reproducible, and unpacking is safe."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from agent.errors import UsageError
from agent.host.recording import Entry

SUFFIXES = (".tar.gz", ".tgz")
MAX_ENTRIES = 250_000
"""Three times those of a host with 4096 VFs."""
MAX_FILE_BYTES = 1 << 20
MAX_STREAM_BYTES = 512 << 20
"""Of the uncompressed archive, including parts that are not unpacked."""
MAX_DISK_BYTES = 512 << 20
"""What the files and folders take on disk, each at least one block."""
MAX_NAME = 1000
"""Bytes; short enough that no path made of two of them passes PATH_MAX."""
MAX_DEPTH = 64
"""Folders in folders; sysfs has less than 20."""
_HEADER_BYTES = 64 << 10
"""A header is read whole, with the long names that it may hold."""
_BLOCK_BYTES = 4096
_SHOWN = 80
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
    """Whether a host root is a recorded host, not a folder."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def unpack(path: Path, folder: Path) -> None:
    """Unpack a recorded host below ``folder``, which must be empty.

    Nothing is written outside the folder, so that untrusted files may be opened. Unpacking stops at
    the first limit that is exceeded. Raises UsageError for a file that is damaged, is not a
    recording, exceeds a limit or has a path that leads out of the folder. (The filters of tarfile
    came with Python 3.11.4, and do not limit sizes.)
    """
    try:
        with gzip.open(path) as packed:
            stream = _Limited(packed)
            with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r:") as tar:
                _lay_out(tar, stream, folder)
        _require_listable(folder)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{path} is not a recorded host: {error}") from error
    except RecursionError:
        fault = "its headers are nested too deeply"
        raise UsageError(f"{path} is not a recorded host: {fault}") from None


class _Limited:
    """The uncompressed archive for tarfile, which would read a header of any size into memory."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self.most_at_once = _HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Read as a file does; raises ValueError if a limit is exceeded."""
        if size > self.most_at_once:
            raise ValueError(
                f"a header in it has {size} bytes, at most {self.most_at_once} are allowed"
            )
        self._check(self._packed.tell() + size)
        return self._packed.read(size)

    def seek(self, offset: int) -> int:
        """Seek forwards by unpacking; raises ValueError if a limit is exceeded."""
        self._check(offset)
        return self._packed.seek(offset)

    def tell(self) -> int:
        """The position, in uncompressed bytes."""
        return self._packed.tell()

    def _check(self, offset: int) -> None:
        if offset > MAX_STREAM_BYTES:
            raise ValueError(
                f"uncompressed it is larger than {MAX_STREAM_BYTES >> 20} MiB, which is the limit"
            )


def _lay_out(tar: tarfile.TarFile, stream: _Limited, folder: Path) -> None:
    """Write folders and files, then links, none below another: nothing is written through one."""
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
            stream.most_at_once = MAX_FILE_BYTES
            with place.open("xb") as file:
                file.write(content.read() if content else b"")
            stream.most_at_once = _HEADER_BYTES
    for place, target in links.items():
        if not links.keys().isdisjoint(place.parents):
            raise ValueError(f"{place.relative_to(folder)}: its folder is a link")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    _require_inside(links, folder)


def _checked(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members; raises ValueError unless they are folders, small files or links."""
    entries = disk_bytes = 0
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined] # tarfile would keep all of them
        name = _shown(member.name)
        if not (member.isdir() or member.isfile() or member.issym()) or member.issparse():
            raise ValueError(f"{name}: neither folder, file nor link")
        _check_name(member)
        if member.size > MAX_FILE_BYTES:
            raise ValueError(
                f"{name}: {member.size} bytes, at most {MAX_FILE_BYTES} are allowed in a file"
            )
        entries += 1
        if entries > MAX_ENTRIES:
            raise ValueError(f"it has more than {MAX_ENTRIES} entries, which is the limit")
        if not member.issym():
            disk_bytes += max(-(-member.size // _BLOCK_BYTES), 1) * _BLOCK_BYTES
        if disk_bytes > MAX_DISK_BYTES:
            raise ValueError(
                f"its files take more than {MAX_DISK_BYTES >> 20} MiB of disk, which is the limit"
            )
        yield member


def _check_name(member: tarfile.TarInfo) -> None:
    """Raise ValueError for a name or a link's target that is longer or deeper than any in sysfs."""
    for name in (member.name, member.linkname):
        if (length := len(os.fsencode(name))) > MAX_NAME:
            raise ValueError(
                f"{_shown(name)}: a name of {length} bytes, at most {MAX_NAME} are allowed"
            )
        if (depth := name.count("/")) > MAX_DEPTH:
            raise ValueError(
                f"{_shown(name)}: {depth} folders deep, at most {MAX_DEPTH} are allowed"
            )


def _shown(name: str) -> str:
    """An untrusted name, escaped and shortened for a message."""
    return ascii(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")[1:-1]


def _require_listable(folder: Path) -> None:
    """Raise OSError if a scan could not read the folders it starts with."""
    for name in ("sys/bus/pci/devices", "sys/bus/auxiliary/devices", "sys/class/net"):
        with suppress(FileNotFoundError):
            os.listdir(folder / name)  # noqa: PTH208 - the names are not used


def _inside(name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        raise ValueError(f"{_shown(name)}: leads out of the host")
    return place


def _require_inside(links: Iterable[Path], folder: Path) -> None:
    """Check the targets when all links exist, since one link may lead through others."""
    root = os.path.realpath(folder)
    for link in links:
        if not Path(_target(link)).is_relative_to(root):
            raise ValueError(f"{_shown(str(link.relative_to(folder)))}: leads out of the host")


def _target(link: Path) -> str:
    """Where a link leads, as the kernel follows it: at most 40 links (path_resolution(7)).

    One that leads nowhere for that reason leads to itself.
    """
    try:
        descriptor = os.open(link, os.O_PATH)
    except OSError as error:
        return os.path.realpath(link.parent if error.errno == errno.ELOOP else link)
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    finally:
        os.close(descriptor)

"""Makes calls of the C library fail at chosen paths in a process, by a library for LD_PRELOAD."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CALLS = (
    *("stat", "open", "list", "access", "readlink", "mkdir", "unlink", "rename"),
    *("bind", "connect", "flock", "watch"),
)
"""What can be failed by itself; ``any`` is all of it."""
_SOURCE = Path(__file__).with_name("fail_calls.c")
_PAGE = 4096
_COUNT = struct.Struct("=i")


def built(folder: Path) -> Path:
    """The library, compiled into a folder; skips the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "fail_calls.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"], check=True
    )
    return library


class FaultyCalls:
    """What fails in the processes that have ``env``, from now on."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library = library
        self._path = folder / "faulty-calls"
        self._path.write_bytes(bytes(_PAGE))
        with self._path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE)

    @property
    def env(self) -> dict[str, str]:
        """Variables of a process whose calls shall fail."""
        return {"LD_PRELOAD": str(self._library), "FAULTY_CALLS": str(self._path)}

    @property
    def failed(self) -> int:
        """How many calls were failed so far."""
        count: int = _COUNT.unpack_from(self._page, _PAGE // 2)[0]
        return count

    @contextmanager
    def failing(self, call: str, number: int, prefix: Path) -> Iterator[None]:
        """Inside, calls of one kind fail with an errno at all paths that begin with ``prefix``."""
        line = f"{call} {number} {prefix}".encode()
        self._page[1 : len(line) + 1] = line[1:] + b"\0"
        self._page[0] = line[0]
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        """Let all calls work."""
        self._page[0] = 0

    def close(self) -> None:
        """End it; what fails still fails."""
        self._page.close()

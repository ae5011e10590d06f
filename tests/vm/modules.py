"""Kernel modules as files: which ones a module needs, in the order to load them.

Debian makes its index of dependencies at installation, which never happens here, so it is read
from the modules: the fields `depends` (symbols) and `softdep` of their .modinfo section.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def loadable(
    folder: Path, names: Iterable[str], loaded: Iterable[str] = ()
) -> dict[str, bytes]:
    """The contents of the named modules and all they need, each after those it needs.

    `folder` is that of one kernel; built-in modules and those already `loaded` are left out.
    """
    files = {_name(path): path for path in folder.rglob("*.ko*")}
    builtin = folder.joinpath("modules.builtin").read_text(encoding="ascii").split()
    present = {_name(Path(line)) for line in builtin} | set(loaded)
    contents: dict[str, bytes] = {}

    def load(name: str) -> None:
        if name in present:
            return
        present.add(name)
        content = _plain(files[name])
        for needed in _needed(content):
            load(needed)
        contents[name] = content

    for name in names:
        load(name)
    return contents


def _name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def _plain(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def _needed(module: bytes) -> list[str]:
    names: list[bytes] = []
    for found in re.finditer(rb"\0depends=([^\0]+)\0", module):
        names += found[1].split(b",")
    for found in re.finditer(rb"\0softdep=pre: ([^\0]+)\0", module):
        names += found[1].split()
    return [name.decode().replace("-", "_") for name in names]

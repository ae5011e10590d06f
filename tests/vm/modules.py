"""Kernel modules as files: which ones a module needs, in the order to load them.

Debian makes its index of dependencies at installation, which never happens here, so it is read
from the modules: the fields `depends` (symbols) and `softdep` of their .modinfo section.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def loadable(
    folder: Path,
    names: Iterable[str],
    loaded: Iterable[str] = (),
    further: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, bytes]:
    """The contents of the named modules and all they need, each after those it needs.

    `folder` is that of one kernel, `further` are modules that are not in it; built-in modules and
    those already `loaded` are left out.
    """
    files = {**_listed(folder / "modules.order"), **further}
    present = {*_listed(folder / "modules.builtin"), *loaded}
    contents: dict[str, bytes] = {}

    def load(name: str) -> None:
        if name in present:
            return
        present.add(name)
        content = _plain(files[name])
        hard, soft = _needed(content)
        # A soft one may be an alias, for whichever module does the same.
        for needed in (*hard, *(name for name in soft if name in files)):
            load(needed)
        contents[name] = content

    for name in names:
        load(name)
    return contents


def _listed(index: Path) -> dict[str, Path]:
    """The modules of an index that comes with the kernel, by their names in /sys/module."""
    paths = (index.parent / line for line in index.read_text(encoding="ascii").split())
    return {path.stem.replace("-", "_"): path for path in paths}


def _plain(path: Path) -> bytes:
    packed = path.with_name(f"{path.name}.xz")
    return lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()


def _needed(module: bytes) -> tuple[list[str], list[str]]:
    """What a module cannot be loaded without, and what it asks for."""
    hard: list[bytes] = []
    soft: list[bytes] = []
    for found in re.finditer(rb"\0depends=([^\0]+)\0", module):
        hard += found[1].split(b",")
    for found in re.finditer(rb"\0softdep=pre: ([^\0]+)\0", module):
        soft += found[1].split()
    return _names(hard), _names(soft)


def _names(found: list[bytes]) -> list[str]:
    return [name.decode().replace("-", "_") for name in found]

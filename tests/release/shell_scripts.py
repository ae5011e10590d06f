"""Checks every shell script of the checkout with shellcheck, however it is named.

python tests/release/shell_scripts.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_SHEBANG = re.compile(rb"#!\S*/(?:env +|busybox +)?(?:ba|da)?sh\b")
_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site"}
_KEPT = {".ci", ".github"}


def shell_scripts(root: Path) -> Iterator[Path]:
    """Files that end in .sh or begin as shell scripts do, sorted; not of virtual environments."""
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(
            f for f in folders if f not in _SKIPPED and (f in _KEPT or not f.startswith("."))
        )
        for path in sorted(Path(folder, f) for f in files):
            if path.suffix == ".sh" or (not path.suffix and _begins_as_one(path)):
                yield path


def _begins_as_one(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return bool(_SHEBANG.match(file.read(64)))


def main() -> int:
    """Exit code of shellcheck, which prints what it found."""
    scripts = list(shell_scripts(REPOSITORY))
    names = [str(script.relative_to(REPOSITORY)) for script in scripts]
    bare = [n for n, s in zip(names, scripts, strict=True) if not _begins_as_one(s)]
    calls = [["shellcheck", *(n for n in names if n not in bare)]]
    if bare:  # given to bash by name
        calls.append(["shellcheck", "--shell=bash", *bare])
    print("shellcheck:", ", ".join(names))
    return max(subprocess.run(call, cwd=REPOSITORY, check=False).returncode for call in calls)


if __name__ == "__main__":
    sys.exit(main())

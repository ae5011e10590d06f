"""A copy of the package with its generators, in which a test adds what CONTRIBUTING describes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("agent", "charts", "docs", "tests/support", "CONTRIBUTING.md")
_GENERATORS = ("docs/generate.py", "charts/generate.py")
_TIMEOUT_S = 300


class PackageCopy:
    """The copy below ``root``; every change is made by a method and is remembered."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: set[str] = set()
        """Paths of the files that were added or changed by hand, relative to the copy."""
        ignored = shutil.ignore_patterns("__pycache__")
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name, ignore=ignored)
            else:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)

    def add(self, path: str, text: str) -> None:
        """Add a new file."""
        file = self.root / path
        assert not file.exists(), f"{path} exists"
        file.write_text(text)
        self.changed.add(path)

    def insert(self, path: str, line: str, *, before: str) -> None:
        """Insert a line before the first line that matches a pattern."""
        file = self.root / path
        text = file.read_text()
        place = re.search(before, text, re.MULTILINE)
        assert place is not None, f"{path} has no line that matches {before}"
        start = text.rfind("\n", 0, place.start()) + 1
        file.write_text(f"{text[:start]}{line}\n{text[start:]}")
        self.changed.add(path)

    def read(self, path: str) -> str:
        """The text of a file of the copy."""
        return (self.root / path).read_text()

    def generate(self) -> None:
        """Run the generators that CONTRIBUTING names."""
        for script in _GENERATORS:
            self.run(script)

    def agent(self, *arguments: object) -> str:
        """Standard output and error of a command of the copied agent; its exit code may be any."""
        return self._output("-m", "agent", *map(str, arguments)).stdout

    def run(self, *arguments: str) -> str:
        """Standard output and error of Python with these arguments; raises if it fails."""
        finished = self._output(*arguments)
        assert finished.returncode == 0, finished.stdout
        return finished.stdout

    def _output(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), "NO_COLOR": "1", "COLUMNS": "400"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )


def promised_files(what: str, name: str) -> set[str]:
    """The files that CONTRIBUTING names for adding ``what``, with ``name`` for NAME."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith(f"| {what} ")]
    assert len(rows) == 1, f"CONTRIBUTING has {len(rows)} rows for {what}"
    return set(re.findall(r"`([\w/.-]+\.\w+)`", rows[0].replace("NAME", name)))

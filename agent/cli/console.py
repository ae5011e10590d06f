"""How commands print: tables and colours on a terminal, plain aligned lines into a pipe.

rich knows about terminals, NO_COLOR and widths; a pipe gets every column whole, without escapes.
Never imported by ``run``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

GOOD, BAD, DIM, STRONG, WARN = "green", "red", "dim", "bold", "yellow"


class Screen:
    """Where a command prints to."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._console = Console(file=self._out, highlight=False, soft_wrap=True)

    def line(self, text: str = "", style: str = "") -> None:
        """One line; its style shows on a terminal only."""
        if self._console.is_terminal:
            self._console.print(Text(text, style=style))
        else:
            self._out.write(printable(text, self._out) + "\n")

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
        """Rows below their headers; on a terminal cells fold, in a pipe nothing is cut."""
        known = [list(row) for row in rows]
        if not self._console.is_terminal:
            cells = [list(headers), *([str(cell) for cell in row] for row in known)]
            for line in aligned(cells):
                self._out.write(printable(line, self._out) + "\n")
            return
        table = Table(box=None, pad_edge=False, header_style=STRONG, padding=(0, 2, 0, 0))
        for header in headers:
            table.add_column(header, overflow="fold")
        for row in known:
            table.add_row(*row)
        self._console.print(table, soft_wrap=False)


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines of aligned columns; the last column is as long as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


def styled(text: str, style: str) -> Text:
    """A cell with a colour."""
    return Text(text, style=style)


def health(text: str) -> Text:
    """A health as told to kubelet."""
    return Text(text or "-", style={"Healthy": GOOD, "Unhealthy": BAD}.get(text, DIM))


def ago(since: float | None, now: float) -> str:
    """How long ago a moment was; ``-`` where it is not known."""
    if not since:
        return "-"
    seconds = max(0, round(now - since))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def clock(moment: float) -> str:
    """A moment as the log writes it, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def printable(text: str, out: TextIO) -> str:
    """The text in whatever the stream's encoding can show."""
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)

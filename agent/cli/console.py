"""The output of commands: tables and colours on a terminal, plain aligned lines otherwise.

rich handles terminals, NO_COLOR and widths. In a pipe, columns are never cut and there are no
escape sequences. ``run`` does not import this module.
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
        """Print rows below headers; long cells wrap on a terminal, and are complete in a pipe."""
        cells_of_rows = [list(row) for row in rows]
        if not self._console.is_terminal:
            cells = [list(headers), *([str(cell) for cell in row] for row in cells_of_rows)]
            for line in aligned(cells):
                self._out.write(printable(line, self._out) + "\n")
            return
        table = Table(box=None, pad_edge=False, header_style=STRONG, padding=(0, 2, 0, 0))
        for header in headers:
            table.add_column(header, overflow="fold")
        for row in cells_of_rows:
            table.add_row(*row)
        self._console.print(table, soft_wrap=False)


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines of aligned columns; the last column is not padded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


def styled(text: str, style: str) -> Text:
    """A cell with a colour."""
    return Text(text, style=style)


def health(text: str) -> Text:
    """A health as reported to kubelet."""
    return Text(text or "-", style={"Healthy": GOOD, "Unhealthy": BAD}.get(text, DIM))


def ago(since: float | None, now: float) -> str:
    """The time since a moment; ``-`` if it is unknown."""
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
    """The text with escapes for characters that the stream's encoding does not have."""
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)

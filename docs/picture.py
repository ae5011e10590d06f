"""Creates pictures/demo.svg, the picture of the demo: runs `sriov-agent demo` and draws its output.

    python docs/picture.py

The lines and figures are those of one real run; long lines are cut at the right edge.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parent / "pictures/demo.svg"
COLUMNS = 112
_COLOURS = (
    (r"^\* .*", "bold cyan"),
    (r"^\$ .*", "bold"),
    (r"WARNING \S+", "yellow"),
    (r"\d+ Healthy", "green"),
    (r"\d+ Unhealthy", "red"),
    (r"has the list after \d+ ms|stopped in \d+ ms", "bold green"),
    (r"\benv \S+?(?==)|device node", "magenta"),
)
_FONT_FROM_ELSEWHERE = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)


def demo() -> str:
    """What one run of the demo prints, log lines included."""
    command = (sys.executable, "-m", "agent", "demo")
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def drawn(told: str) -> str:
    """The text as an SVG of a terminal, which loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in ("$ sriov-agent demo", *told.rstrip().splitlines()):
        text = Text(line.expandtabs(), no_wrap=True, overflow="ellipsis")
        for pattern, style in _COLOURS:
            text.highlight_regex(pattern, style)
        console.print(text, overflow="ellipsis", no_wrap=True)
    console.print()  # the last line would be cut at its foot
    form = _FONT_FROM_ELSEWHERE.sub("", CONSOLE_SVG_FORMAT)
    return console.export_svg(title="sriov-agent", code_format=form, unique_id="demo")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(demo()))

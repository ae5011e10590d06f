"""Texts and names made to do harm: to climb out of a folder, forge a line, turn it around."""

from __future__ import annotations

import os
import unicodedata

from hypothesis import strategies as st

_PARTS = (
    *(
        "..",
        "/",
        ".",
        "-",
        "_",
        ",",
        "=",
        ":",
        " ",
        "a",
        "Z9",
        "vfio",
        "\\",
        '"',
        "'",
        "%2e",
        "$(x)",
    ),
    *("\0", "\n", "\r", "\t", "\x1b[2J", "\x1b]0;x\x07", "\x7f", "\x85", "\x9b31m"),
    *("\u2028", "\u202e", "\u2066", "\u200f", "\ufeff", "\ud800", "ü", "\u05d0", "\U0001f4a9"),
    *("2026-01-01T00:00:00.000Z ERROR   agent.failed error=forged", "x" * 300),
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
"""Lone surrogates too, as names that are no UTF-8 come from the kernel."""
TEXTS = st.lists(st.sampled_from(_PARTS), max_size=8).map("".join) | ANY_TEXT
"""Any text, most of it hostile."""
FILE_NAMES = TEXTS.map(lambda t: os.fsencode(t) if t.isascii() else t.encode(errors="replace")).map(
    lambda raw: raw.replace(b"/", b"").replace(b"\0", b"")[:60]
) | st.binary(max_size=30).map(lambda raw: raw.replace(b"/", b"").replace(b"\0", b""))
NAMES = FILE_NAMES.filter(lambda raw: raw not in {b"", b".", b".."}).map(os.fsdecode)
"""What a file system takes as a name, as Python shows it."""


def turns_the_line(char: str) -> bool:
    """Whether a character makes a terminal write from right to left."""
    return unicodedata.bidirectional(char) in {"R", "AL", "AN", "RLE", "RLO", "RLI", "LRO", "LRE"}

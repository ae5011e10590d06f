"""Opens files in folders where other programs may put links, FIFOs or devices."""

from __future__ import annotations

import os
from pathlib import Path


def open_plain(path: Path | str, _flags: int = 0) -> int:
    """A descriptor for reading; an opener of :func:`open`, which passes flags that are not used.

    Does not follow a symbolic link (ELOOP), nor wait for the writer of a FIFO. Raises OSError.
    """
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)

"""How large a configuration may be: far above any real one, low enough for a quick pass.

The size of the file is limited in ``source``, its nesting and number of values in
``json_positions``, the length of a pattern in ``selectors``.
"""

from __future__ import annotations

MAX_POOLS = 1000
"""Pools of a file: each is a socket, a server and a resource of the node."""
MAX_SELECTOR_OBJECTS = 256
"""Selector objects of a pool: each is a pass over the host's devices."""
MAX_OBJECTS_OF_FILE = 4096
"""Selector objects of all pools together."""
MAX_VALUES_OF_FILE = 32768
"""Selector objects and values of selectors of all pools together."""
MAX_ENTRIES = 8192
"""Values of a list: room for the address of every VF of a host with 4096."""
MAX_LENGTH = 4096
"""Characters of a value of a selector: room for the separate indexes of a PF's VFs."""


def too_many(count: int, what: str, limit: int) -> str:
    """Words for a list that is too long."""
    return f"{count} {what}, at most {limit} are allowed"


def check_length(raw: str) -> None:
    """Raise ValueError for a value that is longer than any real one."""
    if len(raw) > MAX_LENGTH:
        raise ValueError(
            f"{raw[:40]!r}... is {len(raw)} characters long, at most {MAX_LENGTH} are allowed"
        )

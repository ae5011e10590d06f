"""Rows for the documentation of the configuration file, from the tables that loading uses."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agent.config.pool_keys import POOL_KEYS
from agent.kinds import KINDS
from agent.records import frozen
from agent.selectors import SELECTORS


@frozen
class Row:
    """One documented key."""

    key: str
    kinds: tuple[str, ...]
    """Device types it belongs to, in the order of documentation."""
    meaning: str
    allowed: str
    example: str
    """JSON, as a member of its object."""
    is_extension: bool = False
    """Not known to the Go plugin."""


def pool_rows() -> Iterator[Row]:
    """The keys of a pool."""
    kinds = tuple(str(kind) for kind in KINDS)
    for key in POOL_KEYS.values():
        example = _member(key.key, key.example)
        yield Row(key.key, kinds, key.meaning, key.allowed, example, key.is_extension)


def selector_rows() -> Iterator[Row]:
    """The selectors, in the order in which funnels apply them."""
    for selector in SELECTORS.values():
        yield Row(
            selector.key,
            tuple(str(kind) for kind in KINDS if kind in selector.kinds),
            selector.meaning,
            selector.allowed,
            _member(selector.key, selector.example),
        )


def _member(key: str, value: object) -> str:
    return f"{json.dumps(key)}: {json.dumps(value)}"

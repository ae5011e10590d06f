"""Rows for the documentation of the configuration file, from the tables that loading uses."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agent.attrs_classes import frozen
from agent.config.json_positions import MAX_DEPTH, MAX_VALUES
from agent.config.limits import (
    MAX_ENTRIES,
    MAX_LENGTH,
    MAX_OBJECTS_OF_FILE,
    MAX_POOLS,
    MAX_SELECTOR_OBJECTS,
    MAX_VALUES_OF_FILE,
)
from agent.config.pool_keys import POOL_KEYS
from agent.config.source import MAX_BYTES
from agent.kinds import KINDS
from agent.selectors import SELECTORS
from agent.selectors.pf_functions import MAX_PATTERN


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
    kinds = tuple(KINDS)
    for key in POOL_KEYS.values():
        example = _member(key.key, key.example)
        yield Row(key.key, kinds, key.meaning, key.allowed, example, key.is_extension)


def selector_rows() -> Iterator[Row]:
    """The selectors, in the order in which funnels apply them."""
    for selector in SELECTORS.values():
        yield Row(
            selector.key,
            tuple(name for name, kind in KINDS.items() if kind in selector.kinds),
            selector.meaning,
            selector.allowed,
            _member(selector.key, selector.example),
        )


def limit_rows() -> Iterator[tuple[str, int]]:
    """What is limited in a configuration, and how."""
    yield "bytes of the file", MAX_BYTES
    yield "values of any kind in the file", MAX_VALUES
    yield "levels of nesting", MAX_DEPTH
    yield "pools", MAX_POOLS
    yield "selector objects of a pool", MAX_SELECTOR_OBJECTS
    yield "selector objects of all pools", MAX_OBJECTS_OF_FILE
    yield "values of a list", MAX_ENTRIES
    yield "selector objects and values of selectors of all pools", MAX_VALUES_OF_FILE
    yield "characters of a value of a selector", MAX_LENGTH
    yield "characters of a pattern in pfNames", MAX_PATTERN


def _member(key: str, value: object) -> str:
    return f"{json.dumps(key)}: {json.dumps(value)}"

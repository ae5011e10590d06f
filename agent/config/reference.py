"""The rows of the reference page of the configuration file, from the keys and selectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

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
from agent.config.schema import POOL_KEYS, Key
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
    """Whether the Go plugin ignores it."""


def pool_rows(keys: Mapping[str, Key] = POOL_KEYS, parent: str = "") -> Iterator[Row]:
    """The keys of a pool, each followed by the keys of the object that is its value."""
    for key in keys.values():
        yield Row(
            parent + key.name,
            tuple(KINDS),
            key.meaning,
            key.allowed,
            _member(key.name, key.example),
            key.is_extension,
        )
        yield from pool_rows(key.members, f"{parent}{key.name}.")


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
    """What is limited in a configuration, and its limit."""
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

"""The cattrs converter that makes the record of a pool from the keys of the schema.

cattrs reads each field from its key by the hook of its type and collects the errors of all fields.
A hook takes a :class:`Located`, so that an error has the position of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache, partial
from typing import Any

import attrs
from cattrs import BaseValidationError, Converter, override
from cattrs.gen import make_dict_structure_fn

from agent.config.additional_info import read_additional_info
from agent.config.fields import (
    KnownKeys,
    find_kind,
    nearest,
    read_bool,
    read_choice,
    read_number,
    read_object,
    read_string,
)
from agent.config.legacy import old_device_type
from agent.config.names import cdi_vendor_fault, name_fault, prefix_fault
from agent.config.problems import ConfigValueError, Located, quoted
from agent.config.schema import Key, PoolConfig, keys_of
from agent.config.selector_objects import read_selectors
from agent.kinds import KINDS, Kind

_Hook = Callable[[Located, Any], Any]
"""Takes a value of the file and the type of its field; raises ConfigValueError."""


def structure_pool(keys: dict[str, Located]) -> tuple[PoolConfig | None, tuple[Exception, ...]]:
    """The record of a pool, or the errors of all its keys."""
    try:
        return _converter().structure(keys, PoolConfig), ()
    except BaseValidationError as group:
        return None, tuple(_leaves(group))


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


@cache
def _converter() -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has)(partial(_object_hook, converter))
    converter.register_structure_hook(bool, lambda at, _: read_bool(at))
    converter.register_structure_hook(StrEnum, _read_word)
    converter.register_structure_hook(Kind, lambda at, _: _read_kind(at))
    pool = _structure_fn(converter, PoolConfig, _POOL_HOOKS)
    converter.register_structure_hook(PoolConfig, pool)
    return converter


def _object_hook(converter: Converter, record: type[attrs.AttrsInstance]) -> _Hook:
    """Reads an object whose keys are the fields of a record."""
    structure = _structure_fn(converter, record, {})
    known = KnownKeys(*(key.name for key in keys_of(record).values()))
    return lambda at, _: structure(read_object(at, known), record)


def _structure_fn(
    converter: Converter, record: type[attrs.AttrsInstance], hooks: dict[str, _Hook]
) -> Callable[[dict[str, Located], Any], Any]:
    overrides: dict[str, Any] = {
        field: override(rename=key.name, struct_hook=hooks.get(field) or _number_hook(key))
        for field, key in keys_of(record).items()
    }
    # The text of the generated function is kept for debuggers only.
    return make_dict_structure_fn(record, converter, _cattrs_use_linecache=False, **overrides)


def _number_hook(key: Key) -> _Hook | None:
    """Reads a number within the limits of its schema; None for the key of another value."""
    if key.schema.get("type") != "number":
        return None
    low, high = key.schema["minimum"], key.schema["maximum"]
    return lambda at, _: read_number(at, low, high)


def _read_word(at: Located, choices: type[StrEnum]) -> StrEnum:
    """One of the words of an enumeration, which may have the empty string."""
    words = tuple(str(choice) for choice in choices if choice)
    is_empty_choice = at.value == "" and any(not choice for choice in choices)
    return choices("" if is_empty_choice else read_choice(at, words))


def _read_kind(at: Located) -> Kind:
    word = read_string(at)
    kind = find_kind(word)
    if kind is None:
        allowed = ", ".join(KINDS)
        message = f"unknown device type {quoted(word)}, allowed: {allowed}{nearest(word, KINDS)}"
        raise ConfigValueError(at, old_device_type(word) or message)
    if word and word != kind.name:
        at.hint(f"{quoted(word)} is read as {kind}")
    return kind


def _read_name(at: Located, _: object) -> str:
    name = read_string(at)
    if not name:
        raise ConfigValueError(at, "resourceName is missing")
    if fault := name_fault(name):
        raise ConfigValueError(at, f"resource name {quoted(name)} {fault}")
    return name


def _read_prefix(at: Located, _: object) -> str:
    """The prefix; an empty one is the default."""
    options = at.problems.options
    prefix = read_string(at) or options.default_prefix
    if fault := prefix_fault(prefix):
        where = "resourcePrefix" if at.value else "the default (--resource-prefix)"
        raise ConfigValueError(at, f"{where} {quoted(prefix)} {fault}")
    if fault := cdi_vendor_fault(prefix):
        text = f"the prefix {quoted(prefix)} {fault}"
        if options.cdi:
            fix = "give the pool another resourcePrefix, or run without --use-cdi"
            raise ConfigValueError(at, f"{text}: {fix}")
        at.hint(f"{text}: with --use-cdi the pool is refused")
    return prefix


_POOL_HOOKS: dict[str, _Hook] = {
    "name": _read_name,
    "prefix": _read_prefix,
    "selectors": lambda at, _: read_selectors(at),
    "additional_info": lambda at, _: read_additional_info(at),
}
"""Fields of a pool that their type does not describe."""

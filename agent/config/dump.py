"""Writes a configuration as a file that loads to the same configuration, without default values."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
from cattrs import Converter, override
from cattrs.gen import make_dict_unstructure_fn

from agent.config.json_layout import pretty
from agent.config.schema import (
    RESOURCE_LIST,
    Config,
    HealthPolicy,
    PoolConfig,
    SelectorObject,
    keys_of,
)
from agent.kinds import Kind
from agent.selectors import SELECTORS, Shape

_NOTHING: dict[Shape, Any] = {Shape.LIST: [""], Shape.CHOICE: "none"}
"""A selector none of whose values can match: an empty value would be no filter."""


def dump_config(config: Config) -> str:
    """JSON text that loads to an equal configuration, with any default prefix."""
    return pretty({RESOURCE_LIST: _converter().unstructure(list(config.pools))}) + "\n"


@cache
def _converter() -> Converter:
    converter = Converter()
    converter.register_unstructure_hook(Kind, str)
    converter.register_unstructure_hook(SelectorObject, _selectors_as_json)
    for record in (HealthPolicy, PoolConfig):
        _register(converter, record)
    return converter


def _register(converter: Converter, record: type[attrs.AttrsInstance]) -> None:
    overrides: dict[str, Any] = {
        field: override(rename=key.name, omit_if_default=not key.is_required)
        for field, key in keys_of(record).items()
    }
    write = make_dict_unstructure_fn(record, converter, _cattrs_use_linecache=False, **overrides)
    converter.register_unstructure_hook(record, write)


def _selectors_as_json(selectors: SelectorObject) -> dict[str, Any]:
    written = {
        c.key: SELECTORS[c.key].to_json(c.wanted) or _NOTHING[SELECTORS[c.key].shape]
        for c in selectors.criteria
    }
    options = (s for s in SELECTORS.values() if not s.is_filter)
    given = ((s, getattr(selectors, s.grants)) for s in options)
    return {**written, **{s.key: s.to_json(value) for s, value in given if value}}

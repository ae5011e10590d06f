"""The JSON Schema (draft-07) of the configuration file, from the keys and selectors.

It accepts each spelling of a key that loads without a hint: the canonical one, which editors
complete, and Go's, which the operator of the Go plugin writes. ``validate`` is the full check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.config.fields import go_spelling
from agent.config.limits import MAX_ENTRIES, MAX_LENGTH, MAX_POOLS
from agent.config.schema import HARMLESS_KEY, POOL_KEYS, RESOURCE_LIST, SCHEMA_KEY, SWITCH, Key
from agent.kinds import KINDS
from agent.selectors import SELECTORS
from agent.selectors.selector import Selector, Shape

Json = dict[str, Any]


def document() -> Json:
    """The schema of a whole file."""
    properties: dict[str, Json] = {
        SCHEMA_KEY: {
            "type": "string",
            "description": "Where an editor finds this schema; the agent does not read it.",
        },
        RESOURCE_LIST: {
            "type": "array",
            "maxItems": MAX_POOLS,
            "items": {"$ref": "#/definitions/pool"},
            "description": "The pools, in the order in which they choose their devices.",
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of the SR-IOV node agent",
        "description": "Accepts the canonical spelling of a key, and Go's, in which the first "
        "letter is upper case. The agent accepts keys in any letter case, and reads null as an "
        "absent key.",
        **_object(properties, "#", required=[RESOURCE_LIST]),
        "definitions": definitions(),
    }


def definitions() -> Json:
    """``pool`` and ``selectors``: the parts that other schemas share."""
    pool = _of_keys(POOL_KEYS.values(), "#/definitions/pool")
    pool["patternProperties"][f"^{HARMLESS_KEY}$"] = {}
    selectors = {s.key: _selector(s) for s in SELECTORS.values()}
    return {"pool": pool, "selectors": _object(selectors, "#/definitions/selectors")}


def _of_keys(keys: Iterable[Key], place: str) -> Json:
    properties = {}
    required = []
    for key in keys:
        members = _of_keys(key.members.values(), f"{place}/properties/{key.name}")
        described = {"description": f"{key.meaning} {key.allowed}."}
        properties[key.name] = {**key.schema, **(members if key.members else {}), **described}
        required += [key.name] * key.is_required
    return _object(properties, place, required=required)


def _object(properties: Mapping[str, Json], place: str, required: Iterable[str] = ()) -> Json:
    """An object at a JSON pointer that has no other keys than these."""
    schema: Json = {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "patternProperties": {
            f"^{go_spelling(key)}$": {"$ref": f"{place}/properties/{key}"}
            for key in properties
            if key.isalpha()
        },
    }
    if required:
        schema["allOf"] = [
            {"if": {"not": {"required": [go_spelling(key)]}}, "then": {"required": [key]}}
            for key in required
        ]
    return schema


def _selector(selector: Selector) -> Json:
    texts = {"type": "string", "maxLength": MAX_LENGTH}
    shapes: dict[Shape, Json] = {
        Shape.LIST: {"type": "array", "maxItems": MAX_ENTRIES, "items": texts},
        Shape.BOOL: {**SWITCH},
        Shape.CHOICE: {"enum": list(selector.choices)},
    }
    kinds = ", ".join(name for name, kind in KINDS.items() if kind in selector.kinds)
    return {
        **shapes[selector.shape],
        "description": f"{selector.meaning} {selector.allowed}. For {kinds}.",
    }

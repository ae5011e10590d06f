"""The JSON Schema (draft-07) of the configuration file, from the tables that loading uses.

It describes the canonical form. The agent also reads what the Go plugin reads beside it, for
example keys in another case: ``validate`` is the full check.
"""

from __future__ import annotations

from typing import Any

from agent.config.limits import MAX_ENTRIES, MAX_LENGTH, MAX_POOLS
from agent.config.pool_keys import POOL_KEYS, RESOURCE_LIST, SCHEMA_KEY, SWITCH
from agent.kinds import KINDS
from agent.selectors import SELECTORS
from agent.selectors.selector import Selector, Shape

Json = dict[str, Any]


def document() -> Json:
    """The schema of a whole file."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of the SR-IOV node agent",
        "type": "object",
        "additionalProperties": False,
        "required": [RESOURCE_LIST],
        "properties": {
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
        },
        "definitions": definitions(),
    }


def definitions() -> Json:
    """``pool`` and ``selectors``: the parts that other schemas share."""
    return {
        "pool": {
            "type": "object",
            "additionalProperties": False,
            "required": ["resourceName", "selectors"],
            "properties": {
                key.key: {**key.schema, "description": f"{key.meaning} {key.allowed}."}
                for key in POOL_KEYS.values()
            },
        },
        "selectors": {
            "type": "object",
            "additionalProperties": False,
            "properties": {s.key: _selector(s) for s in SELECTORS.values()},
        },
    }


def _selector(selector: Selector) -> Json:
    texts = {"type": "string", "maxLength": MAX_LENGTH}
    shapes: dict[Shape, Json] = {
        Shape.LIST: {"type": "array", "maxItems": MAX_ENTRIES, "items": texts},
        Shape.BOOL: SWITCH,
        Shape.CHOICE: {"enum": list(selector.choices)},
    }
    kinds = ", ".join(name for name, kind in KINDS.items() if kind in selector.kinds)
    return {
        **shapes[selector.shape],
        "description": f"{selector.meaning} {selector.allowed}. For {kinds}.",
    }

"""Formats JSON for people."""

from __future__ import annotations

import json
from typing import Any


def pretty(value: Any, indent: str = "") -> str:  # noqa: ANN401 - any JSON value
    """Short values on one line, the others indented by two spaces."""
    line = _line(value)
    if not isinstance(value, dict | list) or (len(indent) + len(line) <= 72 and _is_flat(value)):
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [f"{_line(k)}: {pretty(v, inner)}" for k, v in value.items()]
        opener, closer = "{", "}"
    else:
        rows = [pretty(v, inner) for v in value]
        opener, closer = "[", "]"
    body = f",\n{inner}".join(rows)
    return f"{opener}\n{inner}{body}\n{indent}{closer}" if rows else opener + closer


def _line(value: Any) -> str:  # noqa: ANN401 - any JSON value
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(value)


def _is_flat(value: dict[str, Any] | list[Any]) -> bool:
    """Whether it contains no object, at any depth."""
    items = value.values() if isinstance(value, dict) else value
    return not any(
        isinstance(item, dict) or (isinstance(item, list) and not _is_flat(item)) for item in items
    )

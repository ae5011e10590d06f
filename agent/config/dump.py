"""Writes a configuration as the file that would load to it; defaults are left out."""

from __future__ import annotations

import json
from typing import Any

from agent.config.pool_keys import RESOURCE_LIST
from agent.config.schema import Config, HealthPolicy, PoolConfig, SelectorObject
from agent.kinds import NET_DEVICE
from agent.selectors import SELECTORS, Shape

_NOTHING: dict[Shape, Any] = {Shape.LIST: [""], Shape.CHOICE: "none"}
"""How a selector is written none of whose values can match: an empty value would be no filter."""


def dump_config(config: Config) -> str:
    """JSON text that loads to an equal configuration, whatever the default prefix."""
    return pretty({RESOURCE_LIST: [pool_as_json(pool) for pool in config.pools]}) + "\n"


def pool_as_json(pool: PoolConfig) -> dict[str, Any]:
    """One pool with the file's keys in their canonical spelling and values in normal form."""
    written: dict[str, Any] = {"resourcePrefix": pool.prefix, "resourceName": pool.name}
    if pool.kind is not NET_DEVICE:
        written["deviceType"] = str(pool.kind)
    objects = [_selectors_as_json(s) for s in pool.selectors]
    written["selectors"] = objects[0] if len(objects) == 1 else objects
    if pool.exclude_topology:
        written["excludeTopology"] = True
    if pool.additional_info is not None:
        written["additionalInfo"] = {k: dict(v) for k, v in pool.additional_info.items()}
    if pool.health != HealthPolicy():
        written["health"] = {
            "link": pool.health.link,
            "recoveryHoldSeconds": pool.health.recovery_hold_s,
        }
    if pool.advertise_empty:
        written["advertiseEmpty"] = True
    if pool.allow_in_use:
        written["allowInUse"] = True
    if pool.share_iommu_group:
        written["shareIommuGroup"] = True
    if pool.allocation_policy is not None:
        written["allocationPolicy"] = str(pool.allocation_policy)
    return written


def pretty(value: Any, indent: str = "") -> str:  # noqa: ANN401 - JSON is what it is
    """JSON for people: short values on one line, the rest indented by two spaces."""
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


def _line(value: Any) -> str:  # noqa: ANN401
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(value)


def _is_flat(value: dict[str, Any] | list[Any]) -> bool:
    """Whether no object stands inside it, at any depth."""
    items = value.values() if isinstance(value, dict) else value
    return not any(
        isinstance(item, dict) or (isinstance(item, list) and not _is_flat(item)) for item in items
    )


def _selectors_as_json(selectors: SelectorObject) -> dict[str, Any]:
    written = {
        c.key: SELECTORS[c.key].to_json(c.wanted) or _NOTHING[SELECTORS[c.key].shape]
        for c in selectors.criteria
    }
    options = (s for s in SELECTORS.values() if not s.is_filter)
    given = ((s, getattr(selectors, s.grants)) for s in options)
    return {**written, **{s.key: s.to_json(value) for s, value in given if value}}

"""Reads one pool of the resource list: its record, or all its problems."""

from __future__ import annotations

from typing import Any

import attrs

from agent.attrs_classes import frozen
from agent.config.converter import structure_pool
from agent.config.fields import KnownKeys, kind_of, read_object
from agent.config.json_errors import Text
from agent.config.json_layout import pretty
from agent.config.json_positions import Node, parse_json
from agent.config.legacy import misplaced, read_v2_pool
from agent.config.names import cdi_vendor_fault, prefix_fault
from agent.config.problems import (
    ConfigValueError,
    LoadOptions,
    Located,
    Problem,
    Problems,
    Severity,
)
from agent.config.schema import HARMLESS_KEY, POOL_KEYS, PoolConfig
from agent.config.selector_objects import everything
from agent.selectors.rdma import IS_RDMA

_KNOWN = KnownKeys(*POOL_KEYS, HARMLESS_KEY, IS_RDMA.key)


@frozen(eq=False)
class PoolReading:
    """The result of reading one pool."""

    at: Located
    index: int
    record: PoolConfig | None = None
    """None = it could not be made."""
    translated: dict[str, Any] | None = None
    """A pool of the v2 layout in the current form."""
    only_cdi: bool = False
    """Whether its only error is its CDI name, which it would not need without --use-cdi."""

    @property
    def resource(self) -> str | None:
        """Its full name, if it could be read, also of a refused pool."""
        return self.at.problems.resource

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Its problems so far."""
        return tuple(self.at.problems.problems)

    @property
    def config(self) -> PoolConfig | None:
        """Its record; None = refused."""
        return None if self.at.problems.has_error else self.record


def read_pool(element: Located, index: int) -> PoolReading:
    """One pool; all its problems are reported, not only the first."""
    text, options = element.problems.text, element.problems.options
    at = attrs.evolve(element, problems=Problems(text, options, index, _resource(element)))
    if v2_pool := read_v2_pool(at):
        translated = v2_pool.translated
        if translated and (fault := _fault_of(translated, options)):
            reason = f"today's form of it would be refused too: {fault}"
            v2_pool = attrs.evolve(v2_pool, translated=None, omitted=(reason,))
        at.error(v2_pool.message)
        return PoolReading(at, index, translated=v2_pool.translated)
    record = _read(at)
    return PoolReading(at, index, record, only_cdi=_fails_only_for_cdi(at))


def _read(at: Located) -> PoolConfig | None:
    try:
        keys = read_object(at, _KNOWN, elsewhere=misplaced)
    except ConfigValueError as error:
        error.report()
        return None
    for key in POOL_KEYS.values():
        if key.is_required and key.name not in keys:
            at.error(_missing(key.name, at))
    keys.setdefault("resourcePrefix", attrs.evolve(at, node=Node("", at.node.start)))
    record, errors = structure_pool(keys)
    for failure in errors:
        if isinstance(failure, ConfigValueError):
            failure.report()
        elif not isinstance(failure, KeyError):  # a missing key, which is reported already
            raise failure
    return record


def _missing(key: str, at: Located) -> str:
    if key != "selectors":
        return f"{key} is missing"
    return f'needs "selectors"; "selectors": [{{}}] would mean {everything(kind_of(at))}'


def _resource(at: Located) -> str | None:
    """A pool's full name as written, with or without faults."""
    name, prefix = at.value_of("resourceName"), _prefix(at)
    is_readable = isinstance(name, str) and name and isinstance(prefix, str)
    return f"{prefix}/{name}" if is_readable else None


def _prefix(at: Located) -> Any:  # noqa: ANN401 - any JSON value
    own = at.value_of("resourcePrefix")
    return at.problems.options.default_prefix if own is None or own == "" else own


def _fails_only_for_cdi(at: Located) -> bool:
    errors = sum(p.severity is Severity.ERROR for p in at.problems.problems)
    if errors != 1 or not at.problems.options.cdi:
        return False
    prefix = _prefix(at)
    return isinstance(prefix, str) and not prefix_fault(prefix) and bool(cdi_vendor_fault(prefix))


def _fault_of(pool: dict[str, Any], options: LoadOptions) -> str:
    """The first error of a pool in the current form, which is printed only without one."""
    text = Text(pretty(pool))
    at = Located(parse_json(text.text), Problems(text, attrs.evolve(options, strict=False)))
    errors = (p for p in read_pool(at, 0).problems if p.severity is Severity.ERROR)
    first = next(errors, None)
    return f"{first.path.removeprefix('$.')}: {first.message}" if first else ""

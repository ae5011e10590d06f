"""Selector ``auxTypes``: the type of an auxiliary device; required for auxNetDevice."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agent.kinds import KINDS
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, absent, present
from agent.selectors.selector import ALL_KINDS, PCI_KINDS, Selector, text


def matches_aux_type(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """The middle part of its name, ``<driver>.<type>.<id>``, is one of the wanted types."""
    return device.aux_type in wanted


def parse_aux_type(raw: str) -> str:
    """A type of auxiliary devices; raises ValueError for a value that cannot be one."""
    aux_type = text(raw)
    if any(mark in aux_type for mark in ".:,;/#") or len(aux_type.split()) > 1:
        raise ValueError(f"{aux_type[:40]!r} is not a type of auxiliary devices (for example sf)")
    return aux_type


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count("auxTypes", lambda d: (d.aux_type,) if d.aux_type else ())
    return tuple(
        Hint(
            f"auxTypes: no auxiliary network device of type {aux_type} on this host; "
            f"present: {present(counts)}",
            aux_type,
        )
        for aux_type in absent(wanted, counts)
    )


def _untested(wanted: frozenset[str]) -> Iterator[str]:
    known = sorted({name for kind in KINDS.values() for name in kind.aux_types})
    for aux_type in sorted(wanted.difference(known)):
        name = json.dumps(aux_type)
        yield f"auxiliary type {name} is passed on untested; known: {', '.join(known)}"


AUX_TYPES = Selector(
    key="auxTypes",
    kinds=ALL_KINDS - PCI_KINDS,
    meaning="The type of auxiliary device: sf for sub-functions. Required for auxNetDevice.",
    allowed="sf; other types are accepted with a warning",
    example=["sf"],
    parse=parse_aux_type,
    cautions=_untested,
    is_required=True,
    matches=matches_aux_type,
    describe=lambda device, _snapshot: f"auxiliary type {device.aux_type or 'none'}",
    diagnose=_hints,
)

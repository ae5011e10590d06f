"""Reads one selector object into criteria, in the order of the selector table.

A value that can match nothing is left out with a warning, and the others of its key count. Where
none is left the key still filters: then the object matches nothing, for an unreadable filter must
never become no filter.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from agent.attrs_classes import frozen
from agent.config.fields import (
    KnownKeys,
    choice_fault,
    read_bool,
    read_choice,
    read_list,
    read_object,
    read_string,
)
from agent.config.json_positions import Member
from agent.config.limits import check_length
from agent.config.pool_keys import POOL_KEYS
from agent.config.problems import Located, Problems, found
from agent.config.schema import Criterion, SelectorObject
from agent.kinds import Kind
from agent.selectors import SELECTORS, Selector, Shape
from agent.selectors.rdma import IS_RDMA
from agent.selectors.table import required_selectors
from agent.selectors.vdpa import VDPA_TYPE

_KNOWN = KnownKeys(*SELECTORS)
_BESIDE = KnownKeys(*POOL_KEYS)
_FILTERS = tuple(key for key, selector in SELECTORS.items() if selector.is_filter)


@frozen(eq=False)
class SelectorObjectReading:
    """What came of one selector object."""

    at: Located
    selectors: SelectorObject
    dead_keys: tuple[str, ...] = ()
    """Selectors none of whose values can match: the object matches nothing."""
    dead_values: tuple[tuple[Located, str], ...] = ()
    """The values of those keys, each with what is wrong; nobody was told yet."""


def tell_dead(objects: tuple[SelectorObjectReading, ...], findings: Problems) -> None:
    """Tell of objects that match nothing: errors where no other object of the pool is left."""
    others_serve = not findings.has_error and any(not o.dead_keys for o in objects)
    for dead in (o for o in objects if o.dead_keys):
        for at, message in dead.dead_values:
            tell = findings.warning if others_serve else findings.error
            tell(at, message)
        if others_serve:
            keys = ", ".join(dead.dead_keys)
            findings.warning(
                dead.at,
                f"no value of {keys} can match: this selector object matches nothing, "
                "the others of the pool are served",
            )


def read_selector_object(
    at: Located, kind: Kind | None, findings: Problems, *, pool_is_rdma: bool = False
) -> SelectorObjectReading | None:
    """One selector object; None where it is no object.

    ``kind`` None = the device type is not known, so nothing can be said about what belongs to it.
    ``pool_is_rdma`` is an isRdma beside the selectors: it holds where the object has none.
    """
    entries = read_object(at, _KNOWN, findings, elsewhere=_elsewhere)
    if entries is None:
        return None
    errors_before = len(findings.problems)
    dead: dict[str, list[tuple[Located, str]]] = {}
    wanted = {
        key: value
        for key, selector in SELECTORS.items()
        if key in entries and _belongs(selector, kind, entries[key], findings)
        if (value := _read_wanted(selector, entries[key], kind, findings, dead)) is not None
    }
    if pool_is_rdma and IS_RDMA.key not in entries and VDPA_TYPE.key not in wanted:
        wanted[IS_RDMA.key] = True
    clean = not any(p.severity == "error" for p in findings.problems[errors_before:])
    _check_whole(at, kind, wanted, entries, findings, clean=clean)
    selectors = SelectorObject(
        criteria=tuple(Criterion(k, wanted[k]) for k in _FILTERS if k in wanted),
        **{s.grants: wanted[key] for key, s in SELECTORS.items() if s.grants and key in wanted},
    )
    return SelectorObjectReading(
        at, selectors, tuple(dead), tuple(chain.from_iterable(dead.values()))
    )


def everything(kind: Kind | None) -> str:
    """What a selector object without filters selects, for messages."""
    noun = kind.noun if kind else "device"
    return f"every {noun} that the host does not use itself"


def _elsewhere(member: Member) -> str | None:
    key = _BESIDE.any_case(member.key)
    return f"{key} is not read here: it belongs beside selectors, not inside" if key else None


def _belongs(selector: Selector, kind: Kind | None, at: Located, findings: Problems) -> bool:
    if kind is None or kind in selector.kinds:
        return True
    allowed = ", ".join(key for key, s in SELECTORS.items() if kind in s.kinds)
    findings.warning(
        at,
        f"{selector.key} does not belong to deviceType {kind}, not read: it is for "
        f"{' and '.join(sorted(map(str, selector.kinds)))}; allowed here: {allowed}",
        on_key=True,
    )
    return False


def _read_wanted(
    selector: Selector,
    at: Located,
    kind: Kind | None,
    findings: Problems,
    dead: dict[str, list[tuple[Located, str]]],
) -> Any:  # noqa: ANN401
    """What the selector wants; None where it filters nothing or the value is of a wrong type."""
    if selector.shape is Shape.BOOL:
        return read_bool(at, findings) or None
    if selector.shape is Shape.CHOICE:
        if at.value == "":
            return None
        if isinstance(at.value, str) and at.value not in selector.choices:
            dead[selector.key] = [(at, choice_fault(at.value, selector.choices))]
            return ""
        return read_choice(at, findings, selector.choices)
    return _read_values(selector, read_list(at, findings), kind, findings, dead)


def _read_values(
    selector: Selector,
    items: tuple[Located, ...],
    kind: Kind | None,
    findings: Problems,
    dead: dict[str, list[tuple[Located, str]]],
) -> Any:  # noqa: ANN401
    """What the values of a list come to; None where there are none, or none is a string.

    Where no value can match, these go into ``dead``, and what is wanted matches nothing.
    """
    parsed: list[Any] = []
    bad: list[tuple[Located, str]] = []
    for item in items:
        if item.value is None:
            bad.append((item, "null can match nothing: remove it"))
        elif (
            raw := read_string(item, findings, number_as_text=selector.number_as_text)
        ) is not None:
            try:
                check_length(raw)
                parsed.append(selector.parse(raw))
            except ValueError as error:
                bad.append((item, _with_place(str(error), selector, raw, kind)))
            else:
                for fault in selector.faults(raw):
                    findings.warning(item, fault)
    if parsed:
        for item, message in bad:
            findings.warning(item, f"{message}; not read, the other values of {selector.key} are")
    elif bad:
        dead[selector.key] = bad
    else:
        return None
    return selector.combine(parsed)


def _with_place(message: str, selector: Selector, raw: str, kind: Kind | None) -> str:
    from agent.selectors.better_place import better_place  # noqa: PLC0415 - for messages only

    place = better_place(selector.key, raw, kind)
    return f"{message}; {place}" if place else message


def _check_whole(
    at: Located,
    kind: Kind | None,
    wanted: dict[str, Any],
    entries: dict[str, Located],
    findings: Problems,
    *,
    clean: bool,
) -> None:
    for key, value in wanted.items():
        for other in sorted(SELECTORS[key].excludes & wanted.keys()):
            message = f"{other} and {key} exclude each other: choose one"
            findings.error(entries[key], message, on_key=True)
        for caution in SELECTORS[key].cautions(value):
            findings.warning(entries[key], caution)
    for key in required_selectors(kind):
        if key not in wanted and (clean or key not in entries):
            example = f"{json.dumps(key)}: {json.dumps(SELECTORS[key].example)}"
            findings.error(at, f"{kind} needs {key}, for example {example}")
    if clean and not any(key in wanted for key in _FILTERS):
        findings.warning(
            at, f"{found(at.value)} without a filter selects {everything(kind)}".removeprefix("an ")
        )

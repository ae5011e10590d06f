"""Reads the selector objects of a pool into criteria, in the order of the selector table.

A value that can match nothing is left out with a warning, and the other values of its key are used.
If none remains, the key still filters, and the object matches nothing: a filter that cannot be read
must never become no filter.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from agent.attrs_classes import frozen
from agent.config.fields import (
    KnownKeys,
    choice_fault,
    kind_of,
    read_bool,
    read_choice,
    read_list,
    read_object,
    read_string,
)
from agent.config.json_positions import Member, Object
from agent.config.limits import MAX_SELECTOR_OBJECTS, check_length
from agent.config.problems import ConfigValueError, Located, Severity, describe
from agent.config.schema import POOL_KEYS, Criterion, SelectorObject
from agent.kinds import Kind
from agent.selectors import SELECTORS, Selector, Shape
from agent.selectors.rdma import IS_RDMA
from agent.selectors.table import required_selectors
from agent.selectors.vdpa import VDPA_TYPE

_KNOWN = KnownKeys(*SELECTORS)
_OF_POOL = KnownKeys(*POOL_KEYS)
_FILTERS = tuple(key for key, selector in SELECTORS.items() if selector.is_filter)
_Unmatchable = dict[str, list[tuple[Located, str]]]
"""Selector -> its values, if none of them can match, each with the reason."""


@frozen(eq=False)
class _Reading:
    """The result of reading one selector object."""

    at: Located
    selectors: SelectorObject
    unmatchable: _Unmatchable
    """If not empty, the object matches nothing; not reported yet."""


def read_selectors(at: Located) -> tuple[SelectorObject, ...]:
    """``selectors`` of a pool: an object or a list of objects."""
    pool = at.parent or at
    kind = kind_of(pool)
    objects = _objects(at, kind)
    rdma = _pool_is_rdma(pool, kind, objects)
    readings = [r for o in objects if (r := _read(o, kind, pool_is_rdma=rdma))]
    _report_unmatchable(at, readings)
    return tuple(r.selectors for r in readings)


def everything(kind: Kind | None) -> str:
    """What a selector object without filters selects, for messages."""
    noun = kind.noun if kind else "device"
    return f"every {noun} that the host does not use itself"


def _objects(at: Located, kind: Kind | None) -> tuple[Located, ...]:
    if isinstance(at.value, Object):
        return (at,)
    elements = read_list(
        at, "an object or a list of objects", noun="selector objects", limit=MAX_SELECTOR_OBJECTS
    )
    objects = tuple(o for o in elements if o.value is not None)
    if not objects:
        what = "a list of nothing but null" if elements else "an empty list"
        raise ConfigValueError(
            at, f"found {what}; one empty object in it would mean {everything(kind)}"
        )
    return objects


def _pool_is_rdma(pool: Located, kind: Kind | None, objects: tuple[Located, ...]) -> bool:
    """Read an isRdma beside the selectors: a common mistake, which would cost pods RDMA."""
    at = pool.get(IS_RDMA.key)
    if at is None:
        return False
    wanted = False
    try:
        wanted = read_bool(at)
    except ConfigValueError as error:
        error.report()
    if kind is not None and kind not in IS_RDMA.kinds:
        at.warning(f"isRdma does not belong to deviceType {kind}", on_key=True)
        return False
    effect = "without effect, move"
    if wanted:
        has_own = any(o.get(s.key) for o in objects for s in (IS_RDMA, VDPA_TYPE))
        but_some = " without isRdma or vdpaType" if has_own else ""
        effect = f"applied to every selector object{but_some}, but move"
    at.warning(f"isRdma beside selectors is {effect} it inside selectors", on_key=True)
    return wanted


def _report_unmatchable(at: Located, readings: list[_Reading]) -> None:
    """Report objects that match nothing: errors if no other object of the pool is left."""
    others_serve = not at.problems.has_error and any(not r.unmatchable for r in readings)
    for reading in (r for r in readings if r.unmatchable):
        for value, message in chain.from_iterable(reading.unmatchable.values()):
            (value.warning if others_serve else value.error)(message)
        if others_serve:
            reading.at.warning(
                f"no value of {', '.join(reading.unmatchable)} can match: this selector object "
                "matches nothing, the others of the pool are served"
            )


def _read(at: Located, kind: Kind | None, *, pool_is_rdma: bool) -> _Reading | None:
    """One selector object; None if it is no object.

    ``kind`` None = unknown, so nothing can be said about which selectors belong to it.
    ``pool_is_rdma`` is an isRdma beside the selectors: it holds for an object without its own.
    """
    try:
        entries = read_object(at, _KNOWN, elsewhere=_elsewhere)
    except ConfigValueError as error:
        error.report()
        return None
    problems_before = len(at.problems.problems)
    unmatchable: _Unmatchable = {}
    wanted: dict[str, Any] = {}
    for key, selector in SELECTORS.items():
        if key not in entries or not _belongs(selector, kind, entries[key]):
            continue
        try:
            value = _read_wanted(selector, entries[key], kind, unmatchable)
        except ConfigValueError as error:
            error.report()
        else:
            wanted |= {} if value is None else {key: value}
    if pool_is_rdma and IS_RDMA.key not in entries and VDPA_TYPE.key not in wanted:
        wanted[IS_RDMA.key] = True
    new_problems = at.problems.problems[problems_before:]
    clean = not any(p.severity is Severity.ERROR for p in new_problems)
    _check_whole(at, kind, wanted, entries, clean=clean)
    selectors = SelectorObject(
        criteria=tuple(Criterion(k, wanted[k]) for k in _FILTERS if k in wanted),
        **{s.grants: wanted[key] for key, s in SELECTORS.items() if s.grants and key in wanted},
    )
    return _Reading(at, selectors, unmatchable)


def _elsewhere(member: Member) -> str | None:
    key = _OF_POOL.any_case(member.key)
    return f"{key} is not read here: it belongs beside selectors, not inside" if key else None


def _belongs(selector: Selector, kind: Kind | None, at: Located) -> bool:
    if kind is None or kind in selector.kinds:
        return True
    allowed = ", ".join(key for key, s in SELECTORS.items() if kind in s.kinds)
    at.warning(
        f"{selector.key} does not belong to deviceType {kind}, not read: it is for "
        f"{' and '.join(sorted(map(str, selector.kinds)))}; allowed here: {allowed}",
        on_key=True,
    )
    return False


def _read_wanted(
    selector: Selector, at: Located, kind: Kind | None, unmatchable: _Unmatchable
) -> Any:  # noqa: ANN401 - what combine makes
    """The wanted value of a selector; None if it filters nothing."""
    if selector.shape is Shape.BOOL:
        return read_bool(at) or None
    if selector.shape is Shape.CHOICE:
        if at.value == "":
            return None
        if isinstance(at.value, str) and at.value not in selector.choices:
            unmatchable[selector.key] = [(at, choice_fault(at.value, selector.choices))]
            return ""
        return read_choice(at, selector.choices)
    return _read_values(selector, read_list(at), kind, unmatchable)


def _read_values(
    selector: Selector, items: tuple[Located, ...], kind: Kind | None, unmatchable: _Unmatchable
) -> Any:  # noqa: ANN401 - what combine makes
    """The combined values of a list; None if there are none, or none is a string.

    If no value can match, they go into ``unmatchable``, and the wanted value matches nothing.
    """
    parsed: list[Any] = []
    bad: list[tuple[Located, str]] = []
    for item in items:
        if item.value is None:
            bad.append((item, "null can match nothing: remove it"))
            continue
        raw = ""
        try:
            raw = read_string(item, number_as_text=selector.number_as_text)
            check_length(raw)
            parsed.append(selector.parse(raw))
        except ConfigValueError as error:
            error.report()
        except ValueError as error:
            bad.append((item, _with_place(str(error), selector, raw, kind)))
        else:
            for fault in selector.faults(raw):
                item.warning(fault)
    if parsed:
        for item, message in bad:
            item.warning(f"{message}; not read, the other values of {selector.key} are")
    elif bad:
        unmatchable[selector.key] = bad
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
    *,
    clean: bool,
) -> None:
    for key, value in wanted.items():
        for other in sorted(SELECTORS[key].excludes & wanted.keys()):
            message = f"{other} and {key} exclude each other: choose one"
            entries[key].error(message, on_key=True)
        for caution in SELECTORS[key].cautions(value):
            entries[key].warning(caution)
    for key in required_selectors(kind):
        if key not in wanted and (clean or key not in entries):
            example = f"{json.dumps(key)}: {json.dumps(SELECTORS[key].example)}"
            at.error(f"{kind} needs {key}, for example {example}")
    if clean and not any(key in wanted for key in _FILTERS):
        at.warning(
            f"{describe(at.value)} without a filter selects {everything(kind)}".removeprefix("an ")
        )

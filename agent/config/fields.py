"""Reads single values of the configuration strictly: no value is converted to another type.

A value of the wrong type raises :class:`ConfigValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from agent.config.json_positions import Member, Object
from agent.config.limits import MAX_ENTRIES, too_many
from agent.config.problems import ConfigValueError, Located, describe, quoted
from agent.kinds import KINDS, NET_DEVICE, Kind

_KINDS = {"": NET_DEVICE} | {name.lower(): kind for name, kind in KINDS.items()}
_MOST_UNKNOWN = 10
"""How many unknown keys of one object are reported one by one."""


class KnownKeys:
    """The keys that an object may have, in all their spellings."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self._by_lower = {key.lower(): key for key in keys}
        # Go's field names, which its operator writes, are as common as the canonical ones.
        self._common = {s: key for key in keys for s in (key, go_spelling(key))}

    def common(self, spelling: str) -> str | None:
        """The key, if the spelling is canonical or Go's, which gives no hint."""
        return self._common.get(spelling)

    def any_case(self, spelling: str) -> str | None:
        """The key, in any letter case."""
        return self._by_lower.get(spelling.lower())


def go_spelling(key: str) -> str:
    """The key as Go writes a field without a name for JSON, with an upper case first letter."""
    return key[0].upper() + key[1:]


def nearest(word: str, names: Iterable[str]) -> str:
    """``, did you mean vendors?`` if a name is similar, in any letter case; otherwise empty."""
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(word[:80].lower(), by_lower, n=1, cutoff=0.7)
    return f", did you mean {by_lower[near[0]]}?" if near else ""


def read_object(
    at: Located,
    known: KnownKeys,
    *,
    elsewhere: Callable[[Member], str | None] = lambda _member: None,
) -> dict[str, Located]:
    """The members of an object by their canonical key.

    Keys match in any letter case, the last of several wins, null is absent (as in Go). An unknown
    key gives a warning; ``elsewhere`` returns its text if the key belongs to another level or
    layout.
    """
    if not isinstance(at.value, Object):
        raise ConfigValueError(at, f"found {describe(at.value)}, wanted an object")
    members: dict[str, Located] = {}
    unknown: list[Member] = []
    for member in at.value.members:
        key = known.common(member.key)
        if key is None:
            key = known.any_case(member.key)
            if key is None:
                unknown.append(member)
                continue
            at.member(member).hint(f"{quoted(member.key)} is read as {key}", on_key=True)
        here = at.member(member)
        if key in members:
            here.warning(f"{key} is given twice, the last one is used", on_key=True)
        members[key] = here
    if unknown:
        _report_unknown(at, unknown, known.keys, elsewhere)
    return {key: here for key, here in members.items() if here.node.value is not None}


def _report_unknown(
    at: Located,
    unknown: list[Member],
    known: Iterable[str],
    elsewhere: Callable[[Member], str | None],
) -> None:
    for member in unknown[:_MOST_UNKNOWN]:
        message = elsewhere(member)
        if message is None:
            guess = nearest(member.key, known)
            message = f"unknown key {quoted(member.key)}, not read{guess}"
        at.member(member).warning(message, on_key=True)
    if (more := len(unknown) - _MOST_UNKNOWN) > 0:
        at.warning(f"{more} more unknown keys, not read")


def read_string(
    at: Located, wanted: str = "a string", number_as_text: Callable[[float], str] = str
) -> str:
    """A string; ``number_as_text`` returns what to write instead of a number."""
    value = at.value
    if isinstance(value, str):
        return value
    fix = ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        fix = f': write "{number_as_text(value)}"'
    raise ConfigValueError(at, f"found {describe(value)}, wanted {wanted}{fix}")


def read_bool(at: Located) -> bool:
    """A boolean."""
    value = at.value
    if isinstance(value, bool):
        return value
    fix = ""
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        fix = f": write {value.strip().lower()} without quotes"
    raise ConfigValueError(at, f"found {describe(value)}, wanted true or false{fix}")


def read_number(at: Located, low: float, high: float) -> float:
    """A number from ``low`` to ``high``."""
    value = at.value
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    raise ConfigValueError(at, f"found {describe(value)}, wanted a number from {low:g} to {high:g}")


def read_list(
    at: Located,
    wanted: str = "a list of strings",
    *,
    noun: str = "values",
    limit: int = MAX_ENTRIES,
) -> tuple[Located, ...]:
    """The elements of a list of at most ``limit``."""
    value = at.value
    if isinstance(value, tuple):
        if len(value) > limit:
            raise ConfigValueError(at, too_many(len(value), noun, limit))
        return at.items()
    fix = f": write [{quoted(value)}]" if isinstance(value, str) else ""
    raise ConfigValueError(at, f"found {describe(value)}, wanted {wanted}{fix}")


def read_choice(at: Located, choices: Iterable[str]) -> str:
    """One of several words; the message of another word names the nearest."""
    allowed = tuple(choices)
    value = read_string(at, f"one of {_either(allowed)}")
    if value not in allowed:
        raise ConfigValueError(at, choice_fault(value, allowed))
    return value


def choice_fault(value: str, allowed: tuple[str, ...]) -> str:
    """The message for a word that is not allowed, with the nearest one that is."""
    return f"found {describe(value)}, wanted {_either(allowed)}{nearest(value, allowed)}"


def _either(allowed: tuple[str, ...]) -> str:
    return " or ".join((", ".join(map(quoted, allowed[:-1])), quoted(allowed[-1])))


def find_kind(word: object) -> Kind | None:
    """The device type of a name in any letter case, empty for the default; None = unknown."""
    return _KINDS.get(word.lower()) if isinstance(word, str) else None


def kind_of(pool: Located) -> Kind | None:
    """The device type of a pool; None = unknown."""
    name = pool.value_of("deviceType")
    return find_kind("" if name is None else name)

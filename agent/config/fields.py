"""Reads single values of the configuration strictly: nothing is converted, everything is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from agent.config.json_positions import Member, Object
from agent.config.limits import MAX_ENTRIES, too_many
from agent.config.problems import Located, Problems, found, quoted

_MOST_UNKNOWN = 10
"""How many unknown keys of one object are told one by one."""


class KnownKeys:
    """The keys that an object may have, however they are written."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self._by_lower = {key.lower(): key for key in keys}
        # Go's own field names, which its operator writes, are as usual as the canonical ones.
        self._usual = {s: key for key in keys for s in (key, key[0].upper() + key[1:])}

    def usual(self, spelling: str) -> str | None:
        """The key, if it is spelled in a way that needs no word."""
        return self._usual.get(spelling)

    def any_case(self, spelling: str) -> str | None:
        """The key, whatever its case."""
        return self._by_lower.get(spelling.lower())


def nearest(word: str, known: Iterable[str]) -> str:
    """``, did you mean vendors?`` where a known name is near, whatever its case; else nothing."""
    names = {name.lower(): name for name in known}
    near = get_close_matches(word[:80].lower(), names, n=1, cutoff=0.7)
    return f", did you mean {names[near[0]]}?" if near else ""


def read_object(
    at: Located,
    known: KnownKeys,
    findings: Problems,
    *,
    elsewhere: Callable[[Member], str | None] = lambda _member: None,
) -> dict[str, Located] | None:
    """The members of an object by their canonical key; None if it is no object.

    Keys match whatever their case, the last of several wins, null is absent (as in Go).
    Unknown keys are warned of; ``elsewhere`` has words for those that another level or layout has.
    """
    if not isinstance(at.value, Object):
        findings.error(at, f"found {found(at.value)}, wanted an object")
        return None
    members: dict[str, Located] = {}
    unknown: list[Member] = []
    for member in at.value.members:
        key = known.usual(member.key)
        if key is None:
            key = known.any_case(member.key)
            if key is None:
                unknown.append(member)
                continue
            message = f"{quoted(member.key)} is read as {key}"
            findings.hint(at.member(member), message, on_key=True)
        here = at.member(member)
        if key in members:
            findings.warning(here, f"{key} is given twice, the last one is used", on_key=True)
        members[key] = here
    if unknown:
        _tell_unknown(at, unknown, known.keys, findings, elsewhere)
    return {key: here for key, here in members.items() if here.node.value is not None}


def _tell_unknown(
    at: Located,
    unknown: list[Member],
    known: Iterable[str],
    findings: Problems,
    elsewhere: Callable[[Member], str | None],
) -> None:
    for member in unknown[:_MOST_UNKNOWN]:
        message = elsewhere(member)
        if message is None:
            guess = nearest(member.key, known)
            message = f"unknown key {quoted(member.key)}, not read{guess}"
        findings.warning(at.member(member), message, on_key=True)
    if (more := len(unknown) - _MOST_UNKNOWN) > 0:
        findings.warning(at, f"{more} more unknown keys, not read")


def read_string(
    at: Located,
    findings: Problems,
    wanted: str = "a string",
    number_as_text: Callable[[float], str] = str,
) -> str | None:
    """A string, else an error; ``number_as_text`` returns what to write in place of a number."""
    value = at.value
    if isinstance(value, str):
        return value
    fix = ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        fix = f': write "{number_as_text(value)}"'
    findings.error(at, f"found {found(value)}, wanted {wanted}{fix}")
    return None


def read_bool(at: Located, findings: Problems) -> bool | None:
    """A boolean, else an error."""
    value = at.value
    if isinstance(value, bool):
        return value
    fix = ""
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        fix = f": write {value.strip().lower()} without quotes"
    findings.error(at, f"found {found(value)}, wanted true or false{fix}")
    return None


def read_number(at: Located, findings: Problems, low: float, high: float) -> float | None:
    """A number from ``low`` to ``high``, else an error."""
    value = at.value
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    findings.error(at, f"found {found(value)}, wanted a number from {low:g} to {high:g}")
    return None


def read_list(
    at: Located,
    findings: Problems,
    wanted: str = "a list of strings",
    *,
    noun: str = "values",
    limit: int = MAX_ENTRIES,
) -> tuple[Located, ...]:
    """The elements of a list of at most ``limit``, else an error and nothing."""
    value = at.value
    if isinstance(value, tuple) and len(value) > limit:
        findings.error(at, too_many(len(value), noun, limit))
        return ()
    if isinstance(value, tuple):
        return at.items()
    fix = f": write [{quoted(value)}]" if isinstance(value, str) else ""
    findings.error(at, f"found {found(value)}, wanted {wanted}{fix}")
    return ()


def read_choice(at: Located, findings: Problems, choices: Iterable[str]) -> str | None:
    """One of some words, else an error with the nearest."""
    allowed = tuple(choices)
    value = read_string(at, findings, f"one of {_either(allowed)}")
    if value is None or value in allowed:
        return value
    findings.error(at, choice_fault(value, allowed))
    return None


def choice_fault(value: str, allowed: tuple[str, ...]) -> str:
    """What is wrong with a word that is none of those allowed, with the nearest."""
    return f"found {found(value)}, wanted {_either(allowed)}{nearest(value, allowed)}"


def _either(allowed: tuple[str, ...]) -> str:
    return " or ".join((", ".join(map(quoted, allowed[:-1])), quoted(allowed[-1])))

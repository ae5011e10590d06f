"""``NAME#0,2-7``: functions of PFs, in the notation of ``pfNames`` and ``rootDevices``.

The index is a VF's index, or the ``sfnum`` of a sub-function. ``NAME`` alone means every function
of that PF, but never the PF itself. All entries for one PF are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from agent.attrs_classes import frozen
from agent.selectors.glob import Glob

Span = tuple[int, int]
_MAX_INDEX = 0xFFFFFFFF
"""``sfnum`` is an unsigned 32-bit number, a VF index 16 bits."""
_MAX_READ = 0x7FFFFFFFFFFFFFFF
"""The Go plugin reads 64-bit numbers; some files have ``0-99999999999`` for "all"."""
_FAULTS_SHOWN = 3
_FORMS = (
    "allowed are NAME, NAME#N and NAME#N-M, several after the # with commas, for example pf0#0,2-7"
)


@frozen
class FunctionRange:
    """Functions of one PF, or of every PF whose name fits a pattern."""

    name: str
    """PF netdev name, pattern of such names, or PCI address in normal form; case-insensitive."""
    spans: tuple[Span, ...] | None = None
    """Index ranges, ends included, sorted and disjoint; None = every function."""
    is_pattern: bool = False
    """Whether ``name`` holds ``*``, ``?`` or ``[`` (fnmatch)."""
    glob: Glob | None = attrs.field(init=False, eq=False, repr=False)
    """The compiled pattern; None if the name is not a pattern."""

    @glob.default
    def _read_glob(self) -> Glob | None:
        return Glob(self.key) if self.is_pattern else None

    @property
    def key(self) -> str:
        """The name in lower case, in which it is compared."""
        return self.name.lower()

    def names(self, pf: str) -> bool:
        """Whether it names the PF ``pf``; case-insensitive."""
        return self.glob.fits(pf.lower()) if self.glob else pf.lower() == self.key

    def holds(self, index: int | None) -> bool:
        """Whether it covers this index; a function without index needs a name alone."""
        if self.spans is None:
            return True
        return index is not None and any(low <= index <= high for low, high in self.spans)

    def __str__(self) -> str:
        if self.spans is None:
            return self.name
        return f"{self.name}#{spans_text(self.spans)}"


@frozen
class FunctionRanges:
    """All entries of one selector, one for each PF, sorted by name."""

    entries: tuple[FunctionRange, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def names(self, pf: str | None) -> bool:
        """Whether an entry names this PF; False if the PF has no name here."""
        return pf is not None and any(e.names(pf) for e in self.entries)

    def cover(self, pf: str | None, index: int | None, *, exactly: bool = False) -> bool:
        """Whether an entry covers the function ``index`` of the PF.

        With ``exactly``, patterns do not count.
        """
        if pf is None:
            return False
        entries = (e for e in self.entries if not (exactly and e.is_pattern))
        return any(e.names(pf) and e.holds(index) for e in entries)

    def __str__(self) -> str:
        return ", ".join(str(e) for e in self.entries)


def parse_range(raw: str, name_of: Callable[[str], str] = str.strip) -> FunctionRange:
    """One entry; ``name_of`` returns the PF's name in normal form or raises ValueError.

    Parts between commas that are not ranges are skipped, as in the Go plugin; see
    :func:`range_faults`. Raises ValueError with the value and the allowed form if the PF is
    missing or no part can be read.
    """
    name, mark, tail = raw.partition("#")
    if not name.strip():
        raise ValueError(f"{raw[:80]!r}: the PF is missing; {_FORMS}")
    if not mark:
        return FunctionRange(name_of(name))
    spans, unread, _ = _parts(tail)
    if not spans:
        raise ValueError(f"{raw[:80]!r}: {unread[0]}; {_FORMS}")
    return FunctionRange(name_of(name), _united(spans))


def range_faults(raw: str) -> tuple[str, ...]:
    """What is wrong with parts of an entry that :func:`parse_range` accepts; one sentence each."""
    _, mark, tail = raw.partition("#")
    if not mark:
        return ()
    _, unread, changed = _parts(tail)
    faults = [*(f"{fault}, so this part is not read" for fault in unread), *changed]
    more = len(faults) - _FAULTS_SHOWN
    shown = [f"{raw[:80]!r}: {fault}" for fault in faults[:_FAULTS_SHOWN]]
    return (*shown, *([f"{raw[:80]!r}: {more} more parts are not read"] if more > 0 else []))


def unite(ranges: Iterable[FunctionRange]) -> FunctionRanges:
    """Merges all entries for one PF; a name without ranges includes all ranges."""
    united: dict[str, FunctionRange] = {}
    for entry in ranges:
        other = united.get(entry.key)
        if other is not None:
            both = None if other.spans is None or entry.spans is None else other.spans + entry.spans
            entry = attrs.evolve(other, spans=None if both is None else _united(both))  # noqa: PLW2901
        united[entry.key] = entry
    return FunctionRanges(tuple(united[key] for key in sorted(united)))


def spans_text(spans: Iterable[Span]) -> str:
    """``0,2-7``."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _united(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _parts(tail: str) -> tuple[list[Span], list[str], list[str]]:
    """The ranges after the ``#``, why parts are not read, and which are read with a change."""
    if "#" in tail:
        return [], ["there is more than one #"], []
    spans, unread, changed = [], [], []
    for part in tail.split(","):
        try:
            low, high = _parse_span(part)
        except ValueError as error:
            unread.append(str(error))
            continue
        spans.append((low, min(high, _MAX_INDEX)))
        if high > _MAX_INDEX:
            changed.append(f"{high} is read as {_MAX_INDEX}, the highest index that can be")
    return spans, unread, changed


def _parse_span(part: str) -> Span:
    first, dash, last = part.partition("-")
    low = _parse_index(first)
    high = _parse_index(last) if dash else low
    if high < low:
        raise ValueError(f"{part[:40]} ends before it starts")
    if low > _MAX_INDEX:
        raise ValueError(f"{low} is above {_MAX_INDEX}, the highest index that can be")
    return low, high


def _parse_index(text: str) -> int:
    """Digits, with an optional plus sign and leading zeros, as in Go."""
    digits = text.removeprefix("+")
    significant = digits.lstrip("0") or "0"
    if digits.isascii() and digits.isdigit() and len(significant) <= len(str(_MAX_READ)):
        number = int(significant)
        if number <= _MAX_READ:
            return number
    if not text.strip():
        raise ValueError("an index is missing")
    is_padded = text != text.strip() and digits.isascii() and digits.strip().isdigit()
    fix = f" (write {text.strip()} without blanks)" if is_padded else ""
    raise ValueError(f"{text[:20]!r} is not an index{fix}")

"""Which devices of a type satisfy a criterion, as sets, each computed once for all pools.

Devices are grouped by the value that a selector compares, functions of a PF by their index too. So
the cost of many disjoint pools grows with devices plus pools, not with their product.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain, filterfalse
from typing import TypeVar

import attrs

from agent.attrs_classes import define
from agent.config.schema import Criterion, SelectorObject
from agent.kinds import Kind
from agent.model.device import Device, Role
from agent.model.snapshot import Snapshot
from agent.selectors import SELECTORS
from agent.selectors.classes import criteria_for
from agent.selectors.ranges import FunctionRanges

_Value = TypeVar("_Value")
_Values = Callable[[Device, Snapshot], Iterable[_Value]]


@define
class _Functions:
    """The functions of one PF, as positions of devices."""

    numbered: list[tuple[int, int]] = attrs.field(factory=list)
    """(index of a function, its position), sorted."""
    others: list[int] = attrs.field(factory=list)
    """Those of unknown index."""

    def all(self) -> Iterator[int]:
        """Every function."""
        yield from (position for _, position in self.numbered)
        yield from self.others

    def between(self, low: int, high: int) -> Iterator[int]:
        """Those with an index from ``low`` to ``high``, without a look at each function."""
        first, end = (bisect_left(self.numbered, (index,)) for index in (low, high + 1))
        yield from (position for _, position in self.numbered[first:end])


class MatchIndex:
    """The devices of one type in one snapshot; sets hold positions in ``devices``."""

    def __init__(self, snapshot: Snapshot, kind: Kind) -> None:
        self.snapshot = snapshot
        self.kind = kind
        self.devices = tuple(d for d in snapshot.devices if d.kind is kind)
        self.all = frozenset(range(len(self.devices)))
        self.allocatable = frozenset(i for i, d in enumerate(self.devices) if not d.has_vfs)
        self._groups: dict[str, Mapping[Hashable, frozenset[int]]] = {}
        self._pfs: dict[str, Mapping[str, _Functions]] = {}
        self._matching: dict[tuple[str, Hashable], frozenset[int]] = {}
        self._narrowed: dict[tuple[Hashable, ...], frozenset[int]] = {}

    def steps(self, selectors: SelectorObject) -> list[tuple[Criterion, frozenset[int]]]:
        """Each criterion with the allocatable devices that are left after it."""
        left: frozenset[int] = self.allocatable
        trail: tuple[Hashable, ...] = ()
        steps: list[tuple[Criterion, frozenset[int]]] = []
        for criterion in criteria_for(selectors, self.kind, self.devices):
            trail = (*trail, criterion.key, criterion.wanted)
            left = self._narrow(trail, left, criterion)
            steps.append((criterion, left))
        return steps

    def _narrow(
        self, trail: tuple[Hashable, ...], left: frozenset[int], criterion: Criterion
    ) -> frozenset[int]:
        if trail not in self._narrowed:
            self._narrowed[trail] = left & self.matching(criterion)
        return self._narrowed[trail]

    def matching(self, criterion: Criterion) -> frozenset[int]:
        """Every device of the type that satisfies ``criterion``."""
        key = (criterion.key, criterion.wanted)
        if key not in self._matching:
            self._matching[key] = self._match(criterion)
        return self._matching[key]

    def _match(self, criterion: Criterion) -> frozenset[int]:
        selector = SELECTORS[criterion.key]
        if selector.index_by is not None:
            groups = self._grouped(criterion.key, selector.index_by)
            return _union(groups[w] for w in criterion.wanted if w in groups)
        if selector.pf_names is not None:
            pfs = self._by_pf(criterion.key, selector.pf_names)
            return frozenset(self._functions(criterion.wanted, pfs))
        matches = selector.matches
        return frozenset(
            i
            for i, device in enumerate(self.devices)
            if matches(device, criterion.wanted, self.snapshot)
        )

    def _functions(self, wanted: FunctionRanges, pfs: Mapping[str, _Functions]) -> Iterator[int]:
        """The functions that any entry covers, without a check of each function of the PF.

        A pattern covers netdevs by their own names, not by alternative ones.
        """
        altnames = self.snapshot.altnames
        for entry in wanted.entries:
            names: Iterable[str] = (entry.key,)
            if entry.is_pattern:
                names = filterfalse(altnames.__contains__, filter(entry.names, pfs))
            for functions in (pfs[name] for name in names if name in pfs):
                if entry.spans is None:
                    yield from functions.all()
                for low, high in entry.spans or ():
                    yield from functions.between(low, high)

    def _by_pf(self, key: str, pf_names: _Values[str]) -> Mapping[str, _Functions]:
        """The functions of each PF, never the PF itself, by its names or address in lower case."""
        if key not in self._pfs:
            pfs: defaultdict[str, _Functions] = defaultdict(_Functions)
            for i, device in enumerate(self.devices):
                if device.role is Role.PF:
                    continue
                for name in pf_names(device, self.snapshot):
                    functions = pfs[name.lower()]
                    if device.index is None:
                        functions.others.append(i)
                    else:
                        insort(functions.numbered, (device.index, i))
            self._pfs[key] = pfs
        return self._pfs[key]

    def _grouped(self, key: str, values: _Values[Hashable]) -> Mapping[Hashable, frozenset[int]]:
        """The devices with each value."""
        if key not in self._groups:
            groups = defaultdict(list)
            for i, device in enumerate(self.devices):
                for value in values(device, self.snapshot):
                    groups[value].append(i)
            self._groups[key] = {value: frozenset(members) for value, members in groups.items()}
        return self._groups[key]


def _union(groups: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset(chain.from_iterable(groups))

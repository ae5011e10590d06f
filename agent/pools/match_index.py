"""Which devices of a kind satisfy a criterion, as sets, each worked out once for all pools.

Devices are grouped by the fact that a selector looks at, functions of a PF by their index too, so
that the cost of a hundred disjoint pools grows with devices plus pools, not with their product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse

from agent.config.schema import Criterion, SelectorObject
from agent.kinds import Kind
from agent.model.device import Device, Role
from agent.model.snapshot import Snapshot
from agent.selectors import SELECTORS
from agent.selectors.classes import criteria_for
from agent.selectors.ranges import FunctionRanges

_EXACT: Mapping[str, Callable[[Device], Hashable]] = {
    "vendors": lambda d: d.vendor,
    "devices": lambda d: d.device,
    "drivers": lambda d: d.driver,
    "pciAddresses": lambda d: d.pci_address,
    "acpiIndexes": lambda d: d.acpi_index,
}
"""Selectors whose wanted value is a set of values of this fact."""

_OF_THE_FUNCTION_TOO = frozenset({"drivers"})
"""Facts that an auxiliary device also has from the function that it is below."""

_BY_PF: Mapping[str, Callable[[Device, Snapshot], tuple[str, ...]]] = {
    "pfNames": lambda d, snapshot: snapshot.pf_names(d),
    "rootDevices": lambda d, _: (d.pf_address,) if d.pf_address else (),
}
"""Selectors that name PFs, then functions of them by their indexes."""

_ByIndex = Mapping[int | None, Sequence[int]]
"""Index of a function -> positions of the devices with it, of one PF."""


class MatchIndex:
    """The devices of one kind in one snapshot; positions in ``devices`` stand for them."""

    def __init__(self, snapshot: Snapshot, kind: Kind) -> None:
        self.snapshot = snapshot
        self.kind = kind
        self.devices = tuple(d for d in snapshot.devices if d.kind is kind)
        self.all = frozenset(range(len(self.devices)))
        self.allocatable = frozenset(i for i, d in enumerate(self.devices) if not d.has_vfs)
        self._groups: dict[str, Mapping[Hashable, frozenset[int]]] = {}
        self._pfs: dict[str, Mapping[str, _ByIndex]] = {}
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
        """Every device of the kind that satisfies ``criterion``."""
        key = (criterion.key, criterion.wanted)
        if key not in self._matching:
            self._matching[key] = self._match(criterion)
        return self._matching[key]

    def _match(self, criterion: Criterion) -> frozenset[int]:
        fact = _EXACT.get(criterion.key)
        has_parent = not self.kind.on_pci
        if fact is not None and not (has_parent and criterion.key in _OF_THE_FUNCTION_TOO):
            groups = self._grouped(criterion.key, fact)
            return _union(groups[w] for w in criterion.wanted if w in groups)
        if pf := _BY_PF.get(criterion.key):
            return frozenset(self._functions(criterion.wanted, self._indexed(criterion.key, pf)))
        matches = SELECTORS[criterion.key].matches
        return frozenset(
            i
            for i, device in enumerate(self.devices)
            if matches(device, criterion.wanted, self.snapshot)
        )

    def _functions(self, wanted: FunctionRanges, pfs: Mapping[str, _ByIndex]) -> Iterator[int]:
        """The functions that any entry means, without asking each function of the PF.

        A pattern means netdevs by their own names, not by alternative ones.
        """
        altnames = self.snapshot.altnames
        for entry in wanted.entries:
            names: Iterable[str] = (entry.key,)
            if entry.is_pattern:
                names = filterfalse(altnames.__contains__, filter(entry.names, pfs))
            for functions in (pfs[name] for name in names if name in pfs):
                if entry.spans is None:
                    yield from chain.from_iterable(functions.values())
                    continue
                for low, high in entry.spans:
                    few = high - low < len(functions)
                    numbers = range(low, high + 1) if few else functions
                    for number in numbers:
                        if number is not None and low <= number <= high:
                            yield from functions.get(number, ())

    def _indexed(
        self, key: str, pf: Callable[[Device, Snapshot], tuple[str, ...]]
    ) -> Mapping[str, _ByIndex]:
        """The functions of each PF, never the PF itself, by its names or address in lower case."""
        if key not in self._pfs:
            found: dict[str, dict[int | None, list[int]]] = {}
            for i, device in enumerate(self.devices):
                if device.role is Role.PF:
                    continue
                for name in pf(device, self.snapshot):
                    found.setdefault(name.lower(), {}).setdefault(device.index, []).append(i)
            self._pfs[key] = found
        return self._pfs[key]

    def _grouped(
        self, key: str, fact: Callable[[Device], Hashable]
    ) -> Mapping[Hashable, frozenset[int]]:
        if key not in self._groups:
            groups = defaultdict(list)
            for i, device in enumerate(self.devices):
                groups[fact(device)].append(i)
            self._groups[key] = {value: frozenset(members) for value, members in groups.items()}
        return self._groups[key]


def _union(groups: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset(chain.from_iterable(groups))

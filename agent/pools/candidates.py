"""Which devices of a kind satisfy a criterion, as sets, each worked out once for all pools.

Devices are grouped by the fact that a selector looks at, so that the cost of a hundred disjoint
pools grows with devices plus pools, not with their product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain

from agent.config.schema import Criterion, SelectorSet
from agent.model.device import Device, Kind, Role
from agent.model.snapshot import Snapshot
from agent.selectors import SELECTORS

_EXACT: Mapping[str, Callable[[Device], Hashable]] = {
    "vendors": lambda d: d.vendor,
    "devices": lambda d: d.device,
    "drivers": lambda d: d.driver,
    "pciAddresses": lambda d: d.pci_address,
    "acpiIndexes": lambda d: d.acpi_index,
}
"""Selectors whose wanted value is a set of values of this fact."""

_BY_PF: Mapping[str, Callable[[Device], str | None]] = {
    "pfNames": lambda d: d.pf_name,
    "rootDevices": lambda d: d.pf_address,
}
"""Selectors that name PFs, then functions of them: all of a PF's devices stand or fall by name."""


class Candidates:
    """The devices of one kind in one snapshot; positions in ``devices`` stand for them."""

    def __init__(self, snapshot: Snapshot, kind: Kind) -> None:
        self.snapshot = snapshot
        self.devices = tuple(d for d in snapshot.devices if d.kind is kind)
        self.all = frozenset(range(len(self.devices)))
        self.allocatable = frozenset(i for i, d in enumerate(self.devices) if not has_vfs(d))
        self._groups: dict[str, Mapping[Hashable, frozenset[int]]] = {}
        self._matching: dict[tuple[str, Hashable], frozenset[int]] = {}
        self._narrowed: dict[tuple[Hashable, ...], frozenset[int]] = {}

    def steps(self, selectors: SelectorSet) -> list[tuple[Criterion, frozenset[int]]]:
        """Each criterion with the allocatable devices that are left after it."""
        left: frozenset[int] = self.allocatable
        trail: tuple[Hashable, ...] = ()
        steps: list[tuple[Criterion, frozenset[int]]] = []
        for criterion in selectors.criteria:
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
        if fact := _EXACT.get(criterion.key):
            groups = self._grouped(criterion.key, fact)
            return _union(groups[w] for w in criterion.wanted if w in groups)
        selector = SELECTORS[criterion.key]
        among: frozenset[int] = self.all
        if pf := _BY_PF.get(criterion.key):
            groups = self._grouped(criterion.key, pf)
            named = (g for name, g in groups.items() if criterion.wanted.names(name))
            among = _union(named)
        return frozenset(
            i for i in among if selector.matches(self.devices[i], criterion.wanted, self.snapshot)
        )

    def _grouped(
        self, key: str, fact: Callable[[Device], Hashable]
    ) -> Mapping[Hashable, frozenset[int]]:
        if key not in self._groups:
            groups = defaultdict(list)
            for i, device in enumerate(self.devices):
                groups[fact(device)].append(i)
            self._groups[key] = {value: frozenset(members) for value, members in groups.items()}
        return self._groups[key]


def has_vfs(device: Device) -> bool:
    """Whether it is a PF whose VFs exist: such a function is never a device itself."""
    return device.role is Role.PF and device.num_vfs > 0


def _union(groups: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset(chain.from_iterable(groups))

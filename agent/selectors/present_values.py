"""Which values the devices of one kind have on this host: what a selector could have matched.

Counted once per snapshot and kind, on first use; only sentences for people are made from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from agent.attrs_classes import frozen
from agent.kinds import NET_DEVICE, Kind
from agent.model.device import Device, Role
from agent.model.snapshot import Snapshot, lack_netdevs

MOST_HINTS = 20
"""How many sentences are told of one list: there may be thousands of values in it."""
_SHOWN = 8
"""How many present values a sentence lists."""


@frozen
class Hint:
    """Why a selector, or one of its values, cannot match on this host."""

    text: str
    """One sentence for people: cause and fix."""
    absent: str = ""
    """The value that nothing here has: no fault where other values of its list match."""


def first_texts(diagnose: Sequence[Hint]) -> tuple[str, ...]:
    """The sentences of the first hints, then how many more there are."""
    more = len(diagnose) - MOST_HINTS
    rest = (f"{more} more values can match nothing on this host",) if more > 0 else ()
    return (*(hint.text for hint in diagnose[:MOST_HINTS]), *rest)


@frozen(slots=False, eq=False)
class PresentValues:
    """The devices of one kind in one snapshot, and counts of their facts.

    Not slotted so that each table is made once, on first use.
    """

    kind: Kind
    everything: tuple[Device, ...]
    """The snapshot's devices. Not the snapshot, which keeps its censuses: a ring of the two would
    outlive it until a full collection."""
    passed_over: tuple[tuple[str, int], ...] = ()
    """(PCI address, class code 0xCCSSPP) of the functions that are no devices for their class."""

    @cached_property
    def other_class(self) -> Mapping[str, int]:
        """PCI address -> class code of the functions that are no devices for their class."""
        return dict(self.passed_over)

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """Devices of every kind, by id."""
        return {device.id: device for device in self.everything}

    def pf_of(self, device: Device) -> Device | None:
        """The PF of a VF or SF (itself for a PF), if it is on this host."""
        return self.by_id.get(device.pf_address) if device.pf_address else None

    @cached_property
    def netdev_owner(self) -> Mapping[str, Device]:
        """The device of any kind that owns a netdev, by interface name in lower case."""
        return {n.name.lower(): d for d in self.everything for n in d.netdevs}

    @cached_property
    def rdma_owner(self) -> Mapping[str, Device]:
        """The device of any kind that owns an RDMA device, by the RDMA device's name."""
        return {r.name: d for d in self.everything for r in d.rdma}

    @cached_property
    def has_no_nic(self) -> bool:
        """Whether no NIC has its netdev in this network namespace."""
        return lack_netdevs(self.everything)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Everything of the kind, PFs with VFs too."""
        return tuple(d for d in self.everything if d.kind is self.kind)

    @cached_property
    def allocatable(self) -> tuple[Device, ...]:
        """Those that a pool could have: a PF whose VFs exist is never a device."""
        return tuple(d for d in self.devices if not d.has_vfs)

    @cached_property
    def unbound(self) -> int:
        """How many of those no driver is bound to."""
        return sum(1 for d in self.allocatable if d.driver is None)

    @cached_property
    def _counts(self) -> dict[str, Counter[str]]:
        return {}

    def count(self, name: str, fact: Callable[[Device], Iterable[str]]) -> Mapping[str, int]:
        """How many allocatable devices have each value of ``fact``; kept under ``name``."""
        if name not in self._counts:
            self._counts[name] = Counter(v for d in self.allocatable for v in fact(d))
        return self._counts[name]

    @cached_property
    def pfs(self) -> tuple[Device, ...]:
        """PFs whose functions are or could be of this kind, in bus order.

        Some adapters have PFs of one class, and VFs of another.
        """
        kind = self.kind if self.kind.on_pci else NET_DEVICE
        role, parents = Role.PF, self.indexes
        pfs = (d for d in self.everything if d.role is role)
        return tuple(d for d in pfs if d.kind is kind or d.id in parents)

    @cached_property
    def indexes(self) -> Mapping[str, tuple[int, ...]]:
        """PF's PCI address -> indexes of its functions of this kind, sorted."""
        found: dict[str, set[int]] = {}
        pf = Role.PF
        for device in self.devices:
            if device.pf_address and device.role is not pf:
                known = found.setdefault(device.pf_address, set())
                if device.index is not None:
                    known.add(device.index)
        return {address: tuple(sorted(known)) for address, known in found.items()}


def present_values(kind: Kind, snapshot: Snapshot) -> PresentValues:
    """The census of one kind, made once per snapshot.

    It is kept with the snapshot's own look-up tables: as a key of a dictionary a snapshot would
    be hashed device by device.
    """
    kept: dict[Kind, PresentValues] = vars(snapshot).setdefault("_census", {})
    if kind not in kept:
        kept[kind] = PresentValues(kind, snapshot.devices, snapshot.passed_over)
    return kept[kind]


def present(counts: Mapping[str, int]) -> str:
    """``i40e (2), vfio-pci (8)``: the most frequent values, then how many more there are."""
    if not counts:
        return "none"
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{value} ({count})" for value, count in sorted(ranked[:_SHOWN]))
    more = len(ranked) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def some(names: Iterable[str]) -> str:
    """The first names in order, then how many more there are."""
    known = tuple(dict.fromkeys(names))
    if not known:
        return "none"
    more = len(known) - _SHOWN
    shown = ", ".join(known[:_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def absent(wanted: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """The wanted values that nothing here has, sorted."""
    return sorted(w for w in wanted if w not in counts)

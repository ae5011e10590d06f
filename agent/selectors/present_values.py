"""The values that devices of one type have on this host: what a selector could have matched.

They are counted once for a snapshot and a device type, on first use, and used for messages only.
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
"""How many sentences are shown for one list: it may have thousands of values."""
_SHOWN = 8
"""How many values a sentence lists."""


@frozen
class Hint:
    """Why a selector, or one of its values, cannot match on this host."""

    text: str
    """One sentence: cause and fix."""
    absent: str = ""
    """The value that no device has; it is no fault if other values of its list match."""


def first_texts(hints: Sequence[Hint]) -> tuple[str, ...]:
    """The texts of the first hints, then the number of the others."""
    more = len(hints) - MOST_HINTS
    rest = (f"{more} more values match nothing on this host",) if more > 0 else ()
    return (*(hint.text for hint in hints[:MOST_HINTS]), *rest)


@frozen(slots=False, eq=False)
class PresentValues:
    """The devices of one type in one snapshot, and counts of their facts.

    It has no slots, so that cached properties make each table once, on first use.
    """

    kind: Kind
    everything: tuple[Device, ...]
    """The snapshot's devices. Not the snapshot, which refers to this record: the cycle would keep
    both in memory until a full garbage collection."""
    passed_over: tuple[tuple[str, int], ...] = ()
    """(PCI address, class code 0xCCSSPP) of the functions that are skipped for their class."""

    @cached_property
    def other_class(self) -> Mapping[str, int]:
        """PCI address -> class code of the functions that are skipped for their class."""
        return dict(self.passed_over)

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """Devices of every type, by id."""
        return {device.id: device for device in self.everything}

    def pf_of(self, device: Device) -> Device | None:
        """The PF of a VF or SF (itself for a PF), if it is on this host."""
        return self.by_id.get(device.pf_address) if device.pf_address else None

    @cached_property
    def netdev_owner(self) -> Mapping[str, Device]:
        """The device of any type that owns a netdev, by interface name in lower case."""
        return {n.name.lower(): d for d in self.everything for n in d.netdevs}

    @cached_property
    def rdma_owner(self) -> Mapping[str, Device]:
        """The device of any type that owns an RDMA device, by the RDMA device's name."""
        return {r.name: d for d in self.everything for r in d.rdma}

    @cached_property
    def has_no_nic(self) -> bool:
        """Whether no NIC has its netdev in this network namespace."""
        return lack_netdevs(self.everything)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices of the type, including PFs with VFs."""
        return tuple(d for d in self.everything if d.kind is self.kind)

    @cached_property
    def allocatable(self) -> tuple[Device, ...]:
        """The devices that a pool can have: not PFs with VFs."""
        return tuple(d for d in self.devices if not d.has_vfs)

    @cached_property
    def unbound(self) -> int:
        """How many of these have no driver."""
        return sum(1 for d in self.allocatable if d.driver is None)

    @cached_property
    def _counts(self) -> dict[str, Counter[str]]:
        return {}

    def count(self, name: str, fact: Callable[[Device], Iterable[str]]) -> Mapping[str, int]:
        """How many allocatable devices have each value of ``fact``; cached under ``name``."""
        if name not in self._counts:
            self._counts[name] = Counter(v for d in self.allocatable for v in fact(d))
        return self._counts[name]

    @cached_property
    def pfs(self) -> tuple[Device, ...]:
        """PFs whose functions are or can be of this type, in bus order.

        Some adapters have PFs of one class, and VFs of another.
        """
        kind = self.kind if self.kind.on_pci else NET_DEVICE
        role, parents = Role.PF, self.indexes
        pfs = (d for d in self.everything if d.role is role)
        return tuple(d for d in pfs if d.kind is kind or d.id in parents)

    @cached_property
    def indexes(self) -> Mapping[str, tuple[int, ...]]:
        """PF's PCI address -> indexes of its functions of this type, sorted."""
        indexes: dict[str, set[int]] = {}
        pf = Role.PF
        for device in self.devices:
            if device.pf_address and device.role is not pf:
                of_pf = indexes.setdefault(device.pf_address, set())
                if device.index is not None:
                    of_pf.add(device.index)
        return {address: tuple(sorted(of_pf)) for address, of_pf in indexes.items()}


def present_values(kind: Kind, snapshot: Snapshot) -> PresentValues:
    """The values of one device type, made once for a snapshot.

    They are stored in the snapshot, beside its cached look-up tables: as a key of a dictionary a
    snapshot would be hashed device by device.
    """
    cached: dict[Kind, PresentValues] = vars(snapshot).setdefault("_present_values", {})
    if kind not in cached:
        cached[kind] = PresentValues(kind, snapshot.devices, snapshot.passed_over)
    return cached[kind]


def present(counts: Mapping[str, int]) -> str:
    """``i40e (2), vfio-pci (8)``: the most frequent values, then the number of the others."""
    if not counts:
        return "none"
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{value} ({count})" for value, count in sorted(ranked[:_SHOWN]))
    more = len(ranked) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def some(names: Iterable[str]) -> str:
    """The first names in order, then the number of the others."""
    unique = tuple(dict.fromkeys(names))
    if not unique:
        return "none"
    more = len(unique) - _SHOWN
    shown = ", ".join(unique[:_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def absent(wanted: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """The wanted values that no device has, sorted."""
    return sorted(w for w in wanted if w not in counts)

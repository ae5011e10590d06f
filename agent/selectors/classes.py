"""Selector ``classes``: accelerators by PCI class, for those that are not of class 0x12.

An accelerator pool that names no classes takes those of class 0x12, as the Go plugin does.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.kinds import Kind
from agent.model.device import Device
from agent.model.pci_class import (
    DEFAULT_ACCELERATOR,
    class_text,
    is_of_class,
    is_on_request,
    parse_class,
)
from agent.model.snapshot import Snapshot
from agent.selectors.criteria import Criterion, SelectorObject
from agent.selectors.present_values import Hint, PresentValues, present
from agent.selectors.selector import ALL_KINDS, Selector

_KEY = "classes"
_DEFAULT = Criterion(_KEY, frozenset({DEFAULT_ACCELERATOR}))


def matches_class(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its class code begins with any of the wanted digits."""
    return any(is_of_class(device.pci_class, digits) for digits in wanted)


def criteria_for(
    selectors: SelectorObject, kind: Kind, devices: Iterable[Device]
) -> tuple[Criterion, ...]:
    """The criteria of a selector object, with the default class where it makes a difference.

    That is where the object names no classes, and some of ``devices`` are of another class.
    """
    if not kind.takes_other_classes or any(c.key == _KEY for c in selectors.criteria):
        return selectors.criteria
    return (
        (_DEFAULT, *selectors.criteria)
        if any(map(is_on_request, devices))
        else (selectors.criteria)
    )


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count(_KEY, lambda d: (class_text(d.pci_class),))
    return tuple(
        Hint(
            f"classes: no function of PCI class 0x{digits} on this host that a pool could have; "
            f"present: {present(counts)}",
            digits,
        )
        for digits in sorted(wanted)
        if not any(is_of_class(d.pci_class, digits) for d in present_values.devices)
    )


CLASSES = Selector(
    key=_KEY,
    kinds=frozenset(kind for kind in ALL_KINDS if kind.takes_other_classes),
    meaning=(
        "The PCI class of the function, for accelerators of other classes: QAT has 0b40. "
        "Without it class 12."
    ),
    allowed="two, four or six hexadecimal digits; 0x and upper case are accepted; never 02 or 06",
    example=["0b40"],
    parse=parse_class,
    matches=matches_class,
    actual=lambda device, _snapshot: f"PCI class {class_text(device.pci_class)}",
    to_text=lambda wanted: ", ".join(f"0x{digits}" for digits in sorted(wanted)),
    diagnose=_hints,
)

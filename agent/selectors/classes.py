"""Selector ``classes``: accelerators by PCI class, if their class is not 0x12.

An accelerator pool that names no classes selects those of class 0x12, as the Go plugin does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agent.kinds import Kind
from agent.model.device import Device
from agent.model.pci_class import (
    DEFAULT_ACCELERATOR,
    ON_REQUEST,
    class_need,
    class_of_number,
    class_text,
    is_needed,
    is_of_class,
    is_on_request,
    parse_class,
)
from agent.model.snapshot import Snapshot
from agent.selectors.criteria import Criterion, SelectorObject
from agent.selectors.present_values import Hint, PresentValues, present
from agent.selectors.selector import ALL_KINDS, Selector

_KEY = "classes"
_ON_EVERY_HOST = frozenset({"01", "03", "0801"})
"""PCI classes of disks, displays and DMA engines."""
_DEFAULT = Criterion(_KEY, frozenset({DEFAULT_ACCELERATOR}))


def matches_class(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its class code begins with the digits of one of the wanted classes."""
    return any(is_of_class(device.pci_class, digits) for digits in wanted)


def criteria_for(
    selectors: SelectorObject, kind: Kind, devices: Iterable[Device]
) -> tuple[Criterion, ...]:
    """The criteria of a selector object, with the default class if it makes a difference.

    It does if the object names no classes and some of ``devices`` are of another class.
    """
    if not kind.takes_other_classes or any(c.key == _KEY for c in selectors.criteria):
        return selectors.criteria
    return (
        (_DEFAULT, *selectors.criteria)
        if any(map(is_on_request, devices))
        else (selectors.criteria)
    )


def other_classes(snapshot: Snapshot) -> str:
    """The functions whose classes pools can name, and how to name them; empty = there are none."""
    counts, example = _skipped(snapshot, ON_REQUEST)
    if not counts:
        return ""
    return (
        f"skipped because of their PCI class: {counts}; functions of other classes than 0x12 are "
        f'selected only by the selector classes, for example "{_KEY}": ["{example}"]'
    )


def accelerator_classes(snapshot: Snapshot) -> str:
    """Crypto engines and the like, which a pool of netDevices cannot have; empty = there are none.

    Disks, displays and DMA engines are left out: nearly every host has some.
    """
    counts, example = _skipped(snapshot, tuple(set(ON_REQUEST) - _ON_EVERY_HOST))
    if not counts:
        return ""
    return (
        f"skipped because of their PCI class: {counts}; pools of "
        f'"deviceType": "accelerator" select such functions by "{_KEY}": ["{example}"]'
    )


def _skipped(snapshot: Snapshot, classes: tuple[str, ...]) -> tuple[str, str]:
    """How many functions of each of the classes there are, and the first class; empty = none."""
    counts = Counter(c >> 8 for _, c in snapshot.passed_over if is_needed(c, classes))
    codes = sorted(counts.items())
    text = ", ".join(f"{class_text(code << 8)}: {count}" for code, count in codes)
    return text, f"{codes[0][0]:04x}" if codes else ""


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count(_KEY, lambda d: (class_text(d.pci_class),))
    return tuple(
        Hint(
            f"classes: no function of PCI class 0x{digits} on this host for a pool; "
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
    number_as_text=class_of_number,
    matches=matches_class,
    needs=lambda wanted: frozenset(map(class_need, wanted)),
    describe=lambda device, _snapshot: f"PCI class {class_text(device.pci_class)}",
    to_text=lambda wanted: ", ".join(f"0x{digits}" for digits in sorted(wanted)),
    diagnose=_hints,
    is_fixed_by_diagnosis=False,
)

"""Selector ``linkTypes``: Ethernet or InfiniBand.

A function without a netdev here (bound to a userspace driver, or its netdev is in a pod) has the
link type of its PF, since all functions of a port share its link. If the PF has none either, the
PCI class shows InfiniBand (0x0207, PCI Code and ID Assignment Specification).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, absent, present
from agent.selectors.selector import NETDEV_KINDS, EmptyStep, Selector

_SPELLINGS = {
    "ether": "ether",
    "eth": "ether",
    "ethernet": "ether",
    "infiniband": "infiniband",
    "ib": "infiniband",
}


INFINIBAND = "infiniband"
_INFINIBAND_CLASS = 0x0207
"""Base class and subclass of an InfiniBand controller."""


def link_types_of(device: Device, pf: Device | None) -> tuple[str, ...]:
    """Its netdevs' link types, else its PF's, else the one of its PCI class; empty = unknown.

    The branch for one netdev is for speed: it is called for thousands of VFs, and nearly all have
    one netdev, or have none and their PF has one.
    """
    for function in (device, pf):
        if function is not None and (netdevs := function.netdevs):
            if len(netdevs) == 1 and (only := netdevs[0].link_type):
                return (only,)
            if types := {n.link_type for n in netdevs if n.link_type}:
                return tuple(sorted(types))
    return (INFINIBAND,) if device.pci_class >> 8 == _INFINIBAND_CLASS else ()


def matches_link_type(device: Device, wanted: frozenset[str], snapshot: Snapshot) -> bool:
    """One of its link types is among the wanted ones."""
    return not wanted.isdisjoint(link_types_of(device, snapshot.pf_of(device)))


def parse_link_type(raw: str) -> str:
    """``ether`` or ``infiniband``; raises ValueError for a value that means neither."""
    try:
        return _SPELLINGS[raw.strip().lower()]
    except KeyError:
        raise ValueError(
            f"{raw[:40]!r} is not a link type; allowed are ether (eth, ethernet) "
            "and infiniband (ib)"
        ) from None


def _describe(device: Device, snapshot: Snapshot) -> str:
    pf = snapshot.pf_of(device)
    types = ", ".join(link_types_of(device, pf))
    if not types:
        return "no link type: neither the function nor its PF has a netdev here"
    if any(n.link_type for n in device.netdevs):
        return f"link type {types}"
    if pf is not None and any(n.link_type for n in pf.netdevs):
        return f"link type {types} of its PF (it has no netdev here)"
    return f"link type {types} by its PCI class (it has no netdev here)"


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    def types(device: Device) -> Iterable[str]:
        return link_types_of(device, present_values.pf_of(device))

    counts = present_values.count("linkTypes", types)
    if not (missing := absent(wanted, counts)):
        return ()
    without = sum(
        1 for d in present_values.allocatable if not link_types_of(d, present_values.pf_of(d))
    )
    note = f"; {without} have none, since their PF has no netdev here either" if without else ""
    return tuple(
        Hint(
            f"linkTypes: no {present_values.kind} of link type {kind} on this host; "
            f"present: {present(counts)}{note}",
            kind,
        )
        for kind in missing
    )


def _fix(step: EmptyStep) -> Iterator[str]:
    pf_of = step.snapshot.pf_of
    types = sorted({kind for d in step.devices for kind in link_types_of(d, pf_of(d))})
    if not types:
        yield (
            "neither these functions nor their PFs have a netdev here that shows a link type: "
            "leave linkTypes out"
        )
    else:
        yield f'select "linkTypes": ["{types[0]}"], or change the port\'s type in its firmware'


LINK_TYPES = Selector(
    key="linkTypes",
    kinds=NETDEV_KINDS,
    meaning="The link type of its netdev; of a function without one here (vfio-pci, or in a pod) "
    "its PF's; else PCI class 0x0207 is infiniband.",
    allowed="ether (also eth, ethernet) or infiniband (also ib), in any case",
    example=["ether"],
    parse=parse_link_type,
    matches=matches_link_type,
    describe=_describe,
    is_observable=lambda device: bool(device.netdevs),
    diagnose=_hints,
    is_fixed_by_diagnosis=False,
    fix=_fix,
)

"""Selector ``linkTypes``: what the function's netdev speaks."""

from __future__ import annotations

from collections.abc import Iterator

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.census import Census, absent, present
from agent.selectors.selector import AUX, NET, Selector

_SPELLINGS = {
    "ether": "ether",
    "eth": "ether",
    "ethernet": "ether",
    "infiniband": "infiniband",
    "ib": "infiniband",
}


def matches_link_type(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Any of its netdevs has a wanted link type; one without netdev here never matches."""
    return any(netdev.link_type in wanted for netdev in device.netdevs)


def parse_link_type(raw: str) -> str:
    """``ether`` or ``infiniband``; raises ValueError for a word that means neither."""
    try:
        return _SPELLINGS[raw.strip().lower()]
    except KeyError:
        raise ValueError(
            f"{raw[:40]!r} is not a link type; allowed are ether (eth, ethernet) "
            "and infiniband (ib)"
        ) from None


def _types(device: Device) -> Iterator[str]:
    yield from sorted({n.link_type for n in device.netdevs if n.link_type})


def _actual(device: Device, _snapshot: Snapshot) -> str:
    if not device.netdevs:
        return "no netdev in the host's namespace, so no link type"
    return f"link type {', '.join(_types(device)) or 'unknown'}"


def _hints(wanted: frozenset[str], census: Census) -> tuple[str, ...]:
    counts = census.count("linkTypes", _types)
    without = sum(1 for d in census.devices if not d.netdevs)
    note = f"; {without} without a netdev here (vfio-pci, or in a pod) have none" if without else ""
    return tuple(
        f"linkTypes: no {census.kind} with a netdev of type {kind} on this host; "
        f"present: {present(counts)}{note}"
        for kind in absent(wanted, counts)
    )


LINK_TYPES = Selector(
    key="linkTypes",
    kinds=frozenset({NET, AUX}),
    meaning="The link type of its netdev; a function without one (vfio-pci) never matches.",
    allowed="ether (also eth, ethernet) or infiniband (also ib), in any case",
    example=["ether"],
    parse=parse_link_type,
    matches=matches_link_type,
    actual=_actual,
    shows=lambda device: bool(device.netdevs),
    hints=_hints,
)

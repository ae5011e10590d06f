"""Selector ``pKeys``: the InfiniBand partition, by the P_Key at index 0 of port 1.

RoCE ports have a P_Key table too, which always holds 0xffff (InfiniBand Architecture Specification,
annex A17). So only InfiniBand ports match.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.model.address import hex_id_of_number
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.link_types import INFINIBAND, link_types_of
from agent.selectors.present_values import Hint, PresentValues, present
from agent.selectors.selector import NETDEV_KINDS, PCI_KINDS, Selector

_FULL_MEMBER = 0x8000
"""Bit 15 of a P_Key: full member of the partition (InfiniBand specification, P_Key format)."""


def matches_pkey(device: Device, wanted: frozenset[int], snapshot: Snapshot) -> bool:
    """Its port is InfiniBand and its P_Key is one of the wanted numbers."""
    return device.pkey in wanted and _is_infiniband(device, snapshot.pf_of(device))


def _is_infiniband(device: Device, pf: Device | None) -> bool:
    return INFINIBAND in link_types_of(device, pf)


def _describe(device: Device, snapshot: Snapshot) -> str:
    if device.pkey is None:
        return "no P_Key"
    if not _is_infiniband(device, snapshot.pf_of(device)):
        return "no InfiniBand port: the P_Key of an Ethernet (RoCE) port is always 0xffff"
    return f"P_Key 0x{device.pkey:04x}"


def parse_pkey(raw: str) -> int:
    """A 16-bit hexadecimal number, with or without 0x; raises ValueError."""
    digits = raw.strip().lower().removeprefix("0x")
    if not digits or len(digits) > 4 or not set(digits) <= set("0123456789abcdef"):
        raise ValueError(f"{raw[:40]!r} is not a P_Key (16-bit hexadecimal, for example 0xffff)")
    return int(digits, 16)


def _to_json(wanted: Iterable[int]) -> list[str]:
    return [f"0x{pkey:04x}" for pkey in sorted(wanted)]


def _hints(wanted: frozenset[int], present_values: PresentValues) -> tuple[Hint, ...]:
    def pkeys(device: Device) -> tuple[str, ...]:
        if device.pkey is None or not _is_infiniband(device, present_values.pf_of(device)):
            return ()
        return (f"0x{device.pkey:04x}",)

    counts = present_values.count("pKeys", pkeys)
    hints = []
    for pkey in sorted(wanted):
        if f"0x{pkey:04x}" in counts:
            continue
        other = f"0x{pkey ^ _FULL_MEMBER:04x}"
        guess = (
            f"; {other} is the same partition with the membership bit" if other in counts else ""
        )
        hints.append(
            Hint(
                f"pKeys: no {present_values.kind} on InfiniBand has the P_Key 0x{pkey:04x} on this "
                f"host; present: {present(counts)}{guess}",
                f"0x{pkey:04x}",
            )
        )
    return tuple(hints)


PKEYS = Selector(
    key="pKeys",
    kinds=PCI_KINDS & NETDEV_KINDS,
    meaning="The InfiniBand partition key at index 0 of port 1, compared as a number; an Ethernet "
    "(RoCE) port never matches.",
    allowed="16-bit hexadecimal numbers, with or without 0x",
    example=["0x8001"],
    parse=parse_pkey,
    number_as_text=hex_id_of_number,
    matches=matches_pkey,
    changes_silently=lambda device: device.pkey is not None,
    describe=_describe,
    is_observable=lambda device: device.pkey is not None,
    to_text=lambda wanted: ", ".join(_to_json(wanted)),
    to_json=_to_json,
    diagnose=_hints,
)

"""Selectors ``rootDevices`` and ``pfNames``: functions by the PF that they belong to.

They select the functions of a PF, never the PF itself. ``rootDevices`` needs no netdev, so it also
works if the PF is bound to vfio-pci.
"""

from __future__ import annotations

import re

from agent.model.address import parse_bdf
from agent.model.device import Device, Role
from agent.model.needs import ALTNAMES
from agent.model.snapshot import Snapshot
from agent.selectors.glob import MARKS
from agent.selectors.pf_hints import pf_name_fix, pf_name_hints, root_device_fix, root_device_hints
from agent.selectors.ranges import (
    FunctionRange,
    FunctionRanges,
    parse_range,
    range_faults,
    unite,
)
from agent.selectors.selector import ALL_KINDS, NETDEV_KINDS, Selector

_FORM = "NAME, NAME#N or NAME#N-M; several ranges with commas, NAME#0,2-7"


def matches_root_device(device: Device, wanted: FunctionRanges, _snapshot: Snapshot) -> bool:
    """It is a function of a wanted PF (by address) with a wanted index; never a PF."""
    return device.role is not Role.PF and wanted.cover(device.pf_address, device.index)


def matches_pf_name(device: Device, wanted: FunctionRanges, snapshot: Snapshot) -> bool:
    """It is a function of a wanted PF (by its netdevs) with a wanted index; never a PF.

    The netdev of each port names the PF, and so does an alternative name that is no pattern.
    """
    if device.role is Role.PF:
        return False
    altnames = snapshot.altnames
    return any(
        wanted.cover(name, device.index, exactly=name.lower() in altnames)
        for name in snapshot.pf_names(device)
    )


MAX_PATTERN = 256
"""Characters of a pattern; a netdev's name has at most 15 (IFNAMSIZ), an alternative name 127."""
_BRACKETS = re.compile(r"\[[^\[\]]*\]")


def parse_pf_name(raw: str) -> FunctionRange:
    """A PF's netdev name or a pattern of names, with ranges; raises ValueError."""
    entry = parse_range(raw)
    if any(mark in entry.name for mark in ":/") or len(entry.name.split()) > 1:
        raise ValueError(f"{raw[:80]!r} is not the name of a netdev")
    if "," in _BRACKETS.sub("", entry.name):
        raise ValueError(f"{raw[:80]!r} is not the name of one netdev")
    if any(mark in entry.name for mark in MARKS):
        if len(entry.name) > MAX_PATTERN:
            raise ValueError(
                f"the pattern {raw[:40]!r}... is {len(entry.name)} characters long, "
                f"at most {MAX_PATTERN} are allowed"
            )
        return FunctionRange(entry.name, entry.spans, is_pattern=True)
    return entry


def parse_root_device(raw: str) -> FunctionRange:
    """A PF's PCI address with ranges; raises ValueError."""
    return parse_range(raw, parse_bdf)


def _to_json(wanted: FunctionRanges) -> list[str]:
    return [str(entry) for entry in wanted.entries]


def _indexed(pf: str, device: Device) -> str:
    return f"function of {pf}" if device.index is None else f"{pf}#{device.index}"


def _describe_root(device: Device, _snapshot: Snapshot) -> str:
    if device.role is Role.PF:
        return "is a PF itself"
    if device.pf_address is None:
        return "its PF is not on this host"
    return _indexed(device.pf_address, device)


def _describe_name(device: Device, snapshot: Snapshot) -> str:
    if device.role is Role.PF:
        return f"is the PF {device.pf_name} itself" if device.pf_name else "is a PF itself"
    if names := snapshot.pf_names(device):
        others = f" (also named {', '.join(names[1:])})" if names[1:] else ""
        return _indexed(names[0], device) + others
    pf = snapshot.pf_of(device)
    if pf is None:
        return "its PF is not on this host"
    bound = f"driver {pf.driver}" if pf.driver else "no driver"
    return f"its PF {pf.id} has no netdev here ({bound}): use rootDevices"


def _summary(device: Device, pf: str | None) -> str:
    """Which PF a device belongs to, for counting; ``pf`` is the name of that PF."""
    if device.role is Role.PF:
        return f"the PF {pf} itself" if pf else f"the PF {device.id} itself, without a netdev"
    if pf:
        return f"functions of {pf}"
    if device.pf_address:
        return f"functions of {device.pf_address}, which has no netdev here"
    return "functions whose PF is not on this host"


ROOT_DEVICES = Selector(
    key="rootDevices",
    kinds=ALL_KINDS,
    meaning="The functions of a PF, named by the PF's PCI address; never the PF itself.",
    allowed=f"{_FORM}, where NAME is a PCI address",
    example=["0000:3b:00.0#0,2-7"],
    parse=parse_root_device,
    faults=range_faults,
    combine=unite,
    matches=matches_root_device,
    pf_names=lambda device, _snapshot: (device.pf_address,) if device.pf_address else (),
    describe=_describe_root,
    to_text=str,
    to_json=_to_json,
    summarize=lambda device, _snapshot: _summary(device, device.pf_address),
    diagnose=root_device_hints,
    fix=root_device_fix,
)

PF_NAMES = Selector(
    key="pfNames",
    kinds=NETDEV_KINDS,
    meaning="The functions of a PF, named by a netdev of the PF; never the PF itself.",
    allowed=f"{_FORM}, where NAME may hold the wildcards * ? [...]",
    example=["ens1f0#0-7", "mlx-*"],
    parse=parse_pf_name,
    faults=range_faults,
    combine=unite,
    matches=matches_pf_name,
    pf_names=lambda device, snapshot: snapshot.pf_names(device),
    needs=lambda _wanted: frozenset({ALTNAMES}),
    describe=_describe_name,
    to_text=str,
    to_json=_to_json,
    summarize=lambda device, _snapshot: _summary(device, device.pf_name),
    diagnose=pf_name_hints,
    fix=pf_name_fix,
)

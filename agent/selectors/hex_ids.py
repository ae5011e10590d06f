"""Selectors ``vendors`` and ``devices``: the hardware, by the ids in its PCI header."""

from __future__ import annotations

from collections.abc import Iterator

from agent.kinds import NET_DEVICE
from agent.model.address import hex_id_of_number, parse_hex_id
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.classes import accelerator_classes
from agent.selectors.present_values import Hint, PresentValues, absent, present
from agent.selectors.selector import ALL_KINDS, EmptyStep, Selector


def matches_vendor(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its vendor id is one of the wanted ones (the parent function's for an auxiliary device)."""
    return device.vendor in wanted


def matches_device(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its device id is one of the wanted ones (the parent function's for an auxiliary device)."""
    return device.device in wanted


def _vendor_hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count("vendors", lambda d: (d.vendor,))
    return tuple(
        Hint(
            f"vendors: no {present_values.kind} of vendor {vendor} on this host; "
            f"present: {present(counts)}",
            vendor,
        )
        for vendor in absent(wanted, counts)
    )


def _device_hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count("devices", lambda d: (d.device,))
    return tuple(
        Hint(_device_hint(device, present_values), device) for device in absent(wanted, counts)
    )


def _device_hint(device: str, present_values: PresentValues) -> str:
    pfs = [d for d in present_values.devices if d.device == device]
    if pfs:
        return (
            f"devices: {device} is the id of PFs with VFs here ({pfs[0].id}), which are never "
            f"devices; VFs have an id of their own"
        )
    pairs = present_values.count("pairs", lambda d: (f"{d.vendor}:{d.device}",))
    hint = (
        f"devices: no {present_values.kind} with device id {device} on this host; "
        f"present (vendor:device): {present(pairs)}"
    )
    idle = [d for d in present_values.pfs if d.total_vfs and not d.num_vfs]
    if idle:
        hint += f"; {idle[0].id} supports VFs, but its sriov_numvfs is 0"
    return hint


def _fix(key: str) -> str:
    return f"set {key} to one of these; `lspci -nn` shows the ids of all functions"


def _fix_device(step: EmptyStep) -> Iterator[str]:
    yield _fix("devices")
    if step.kind is NET_DEVICE and (classes := accelerator_classes(step.snapshot)):
        yield classes


VENDORS = Selector(
    key="vendors",
    kinds=ALL_KINDS,
    meaning="The PCI vendor id.",
    allowed="16-bit hexadecimal ids; 0x and upper case are accepted",
    example=["8086", "15b3"],
    parse=parse_hex_id,
    number_as_text=hex_id_of_number,
    matches=matches_vendor,
    index_by=lambda device, _snapshot: (device.vendor,),
    identifies_hardware=True,
    describe=lambda device, _snapshot: f"vendor {device.vendor}",
    diagnose=_vendor_hints,
    is_fixed_by_diagnosis=False,
    fix=lambda _step: (_fix("vendors"),),
)

DEVICES = Selector(
    key="devices",
    kinds=ALL_KINDS,
    meaning="The PCI device id; VFs have another id than their PF.",
    allowed="16-bit hexadecimal ids; 0x and upper case are accepted",
    example=["154c", "101e"],
    parse=parse_hex_id,
    number_as_text=hex_id_of_number,
    matches=matches_device,
    index_by=lambda device, _snapshot: (device.device,),
    identifies_hardware=True,
    differs_between_pf_and_vf=True,
    describe=lambda device, _snapshot: f"device {device.device}",
    diagnose=_device_hints,
    is_fixed_by_diagnosis=False,
    fix=_fix_device,
)

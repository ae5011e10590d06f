"""Selectors ``pciAddresses`` and ``acpiIndexes``: functions by their place in the machine."""

from __future__ import annotations

from agent.model.address import parse_bdf
from agent.model.device import Device, Role
from agent.model.pci_class import passed_over
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, absent, some
from agent.selectors.selector import ALL_KINDS, PCI_KINDS, Selector


def matches_address(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its PCI address is one of the wanted (the parent function's for an auxiliary device)."""
    return device.pci_address in wanted


def matches_acpi_index(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its ACPI index is one of the wanted."""
    return device.acpi_index in wanted


def parse_acpi_index(raw: str) -> str:
    """A decimal number without leading zeros, as the kernel prints it; else ValueError."""
    digits = raw.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ValueError(f"{raw[:40]!r} is not an ACPI index (a decimal number, for example 101)")
    return str(int(digits))


def _address_hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    own = {d.pci_address for d in present_values.devices}
    return tuple(
        Hint(hint, address)
        for address in sorted(wanted)
        if (hint := _address_hint(address, own, present_values))
    )


def _address_hint(address: str, own: set[str], present_values: PresentValues) -> str:
    device = present_values.by_id.get(address)
    if (
        device is not None
        and device.role is Role.PF
        and device.num_vfs
        and present_values.kind is device.kind
    ):
        return (
            f"pciAddresses: {address} is a PF with {device.num_vfs} VFs: such a PF is never a "
            f'device; its VFs are selected by rootDevices ["{address}"]'
        )
    if address in own:
        return ""
    if device is None and (pci_class := present_values.other_class.get(address)) is not None:
        return f"pciAddresses: {passed_over(address, pci_class)}"
    if device is None:
        return f"pciAddresses: no function at {address} on this host"
    if not present_values.kind.on_pci:
        return f"pciAddresses: {address} has no auxiliary network devices on this host"
    return (
        f"pciAddresses: {address} has deviceType {device.kind}, this pool has {present_values.kind}"
    )


def _acpi_hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count("acpiIndexes", lambda d: (d.acpi_index,) if d.acpi_index else ())
    by_number = sorted(counts, key=lambda index: (len(index), index))
    indexes = some(by_number) if counts else "none (the firmware gives no indexes)"
    return tuple(
        Hint(
            f"acpiIndexes: no {present_values.kind} with ACPI index {index} on this host; "
            f"present: {indexes}",
            index,
        )
        for index in absent(wanted, counts)
    )


PCI_ADDRESSES = Selector(
    key="pciAddresses",
    kinds=ALL_KINDS,
    meaning="The function's own PCI address; for auxiliary devices their parent function's.",
    allowed="dddd:bb:dd.f; a missing domain is 0000, upper case is accepted",
    example=["0000:3b:00.1"],
    parse=parse_bdf,
    matches=matches_address,
    index_by=lambda device, _snapshot: (device.pci_address,),
    identifies_hardware=True,
    describe=lambda device, _snapshot: f"PCI address {device.pci_address}",
    diagnose=_address_hints,
)

ACPI_INDEXES = Selector(
    key="acpiIndexes",
    kinds=PCI_KINDS,
    meaning="The index that the firmware gives the function (sysfs acpi_index).",
    allowed="decimal numbers as strings",
    example=["101"],
    parse=parse_acpi_index,
    matches=matches_acpi_index,
    index_by=lambda device, _snapshot: (device.acpi_index,),
    identifies_hardware=True,
    describe=lambda device, _snapshot: (
        f"ACPI index {device.acpi_index}" if device.acpi_index else "no ACPI index"
    ),
    diagnose=_acpi_hints,
)

"""PCI class codes: what a function says it is (PCI Code and ID Assignment Specification)."""

from __future__ import annotations

import re

from agent.model.device import Device

DEFAULT_ACCELERATOR = "12"
"""The class of accelerators where a pool names none: processing accelerators."""
NEVER = {"06": "bridges are never devices", "02": 'network functions are of deviceType "netDevice"'}
"""Base classes that no pool can ask for, with the reason."""
ON_REQUEST = ("01", "03", "0801", "0b", "10", "40", "ff")
"""Classes whose functions people give to pods: these are offered as advice."""

_CLASS = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2}){1,3})")
_NEED = "class "
_BASES = {
    0x00: "device from before classes",
    0x01: "mass storage controller",
    0x02: "network controller",
    0x03: "display controller",
    0x04: "multimedia controller",
    0x05: "memory controller",
    0x06: "bridge",
    0x07: "communication controller",
    0x08: "system peripheral",
    0x09: "input device",
    0x0A: "docking station",
    0x0B: "processor",
    0x0C: "serial bus controller",
    0x0D: "wireless controller",
    0x0E: "intelligent I/O controller",
    0x0F: "satellite communication controller",
    0x10: "encryption controller",
    0x11: "signal processing controller",
    0x12: "processing accelerator",
    0x13: "instrumentation",
    0x40: "co-processor",
    0xFF: "device that fits no class",
}
_SUBCLASSES = {
    0x0106: "SATA controller",
    0x0107: "SAS controller",
    0x0108: "NVMe controller",
    0x0300: "VGA controller",
    0x0302: "3D controller, such as a GPU",
    0x0380: "display controller, such as a GPU",
    0x0801: "DMA controller",
    0x0B40: "co-processor, such as a crypto engine",
    0x0C03: "USB controller",
    0x1000: "network and computing encryption",
    0x1101: "performance counters",
}


def parse_class(text: str) -> str:
    """A class code of two, four or six hex digits in lower case; raises ValueError naming it."""
    found = _CLASS.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text[:40]!r} is not a PCI class: two, four or six hexadecimal digits, as 0b40"
        )
    digits = found[1].lower()
    if reason := NEVER.get(digits[:2]):
        raise ValueError(f"PCI class 0x{digits}: {reason}")
    return digits


def class_of_number(number: float) -> str:
    """The text of a class code that a file has as a number.

    1200 is class 0x1200, since base class 0x12 exists; 2880 is 0x0b40 in decimal, since base class
    0x28 does not exist.
    """
    own = str(number)
    if not isinstance(number, int) or number < 0 or _is_known(own):
        return own
    digits = f"{number:x}"
    in_hex = digits.zfill(len(digits) + len(digits) % 2)
    return in_hex if _is_known(in_hex) else own


def _is_known(text: str) -> bool:
    """Whether it is the code of a class that exists."""
    return _CLASS.fullmatch(text) is not None and int(text[:2], 16) in _BASES


def class_text(pci_class: int) -> str:
    """``0x0b40 (co-processor, such as a crypto engine)`` of a class code 0xCCSSPP."""
    code = pci_class >> 8
    words = _SUBCLASSES.get(code) or _BASES.get(code >> 8, "of no known class")
    return f"0x{code:04x} ({words})"


def passed_over(address: str, pci_class: int, wanted: str = "it") -> str:
    """One sentence: a function is no device for its class, and which pool can have ``wanted``."""
    text = f"{address} is skipped because of its PCI class {class_text(pci_class)}"
    if not is_needed(pci_class, ("",)):
        return f"{text}: no pool can have {wanted}"
    return (
        f'{text}: a pool has {wanted} with "deviceType": "accelerator" and '
        f'"classes": ["{pci_class >> 8:04x}"] in its selectors'
    )


def is_of_class(pci_class: int, wanted: str) -> bool:
    """Whether a class code begins with the digits that are wanted."""
    return f"{pci_class:06x}".startswith(wanted)


def class_need(digits: str) -> str:
    """The need that a scan takes for a PCI class; empty digits mean every class."""
    return _NEED + digits


def needed_classes(needs: frozenset[str]) -> tuple[str, ...]:
    """The classes among the facts that a scan is to read, sorted."""
    return tuple(sorted(n.removeprefix(_NEED) for n in needs if n.startswith(_NEED)))


def is_needed(pci_class: int, classes: tuple[str, ...]) -> bool:
    """Whether a function of another class than the agent's own is to be read."""
    digits = f"{pci_class:06x}"
    return digits[:2] not in NEVER and digits.startswith(classes)


def is_on_request(device: Device) -> bool:
    """Whether it is an accelerator of another class than the default one."""
    if not device.kind.takes_other_classes:
        return False
    base = f"{device.pci_class >> 16:02x}"
    return base != DEFAULT_ACCELERATOR and base not in NEVER

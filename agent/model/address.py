"""PCI addresses and hex ids in their one normal form; inputs are what people and sysfs write."""

from __future__ import annotations

import re

_BDF = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])", re.IGNORECASE)
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})")


def parse_bdf(text: str) -> str:
    """The normal form ``dddd:bb:dd.f`` of a PCI address; a missing domain is 0000.

    Domains of more than four digits (VMD, Hyper-V) are kept. Raises ValueError naming the text.
    """
    found = _BDF.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a PCI address (dddd:bb:dd.f, for example 0000:3b:00.1)")
    domain, bus, device, function = found.groups(default="0")
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def parse_hex_id(text: str) -> str:
    """The normal form (four lower-case digits, no prefix) of a vendor or device id.

    Raises ValueError naming the text where it is no 16-bit hexadecimal number.
    """
    found = _HEX.fullmatch(text.strip())
    if found is None or int(found[1], 16) > 0xFFFF:
        raise ValueError(f"{text!r} is not a 16-bit hexadecimal id (for example 8086)")
    return f"{int(found[1], 16):04x}"


def hex_id_of_number(number: float) -> str:
    """The text of a 16-bit hexadecimal id that a file has as a number.

    8086 is the id 8086; 32902 is too, since an id has four digits.
    """
    own = str(number)
    if isinstance(number, int) and 9999 < number <= 0xFFFF:
        return f"{number:04x}"
    return own


def bus_order(bdf: str) -> tuple[int, str]:
    """Sort key of addresses in normal form as the bus has them: their text, longer domains last."""
    return len(bdf), bdf


def bdf_order(bdf: str) -> tuple[int, int, int, int]:
    """The numbers of a PCI address in its normal form."""
    domain, bus, rest = bdf.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)

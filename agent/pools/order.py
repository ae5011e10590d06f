"""The one stable order of devices in lists, envs and preferences: PF, then index, then id."""

from __future__ import annotations

import re

from agent.model.address import bus_order
from agent.model.device import Device

_NOT_A_BDF = (1 << 32, "")
_DIGITS = re.compile(r"(\d+)")


def device_order(device: Device) -> tuple[object, ...]:
    """Sort key: the PF's place on the bus, the VF or SF index, then the id in natural order.

    A function without a known PF is sorted by its own address. A PCI function comes before an
    auxiliary device with the same PF and index.
    """
    home, own = device.pf_address or device.pci_address, device.pci_address
    place = bus_order(home) if home else _NOT_A_BDF
    index = -1 if device.index is None else device.index
    if own == device.id:
        return place, index, 0, place if own == home else bus_order(own)
    return place, index, 1, natural(device.id)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``sf.2`` comes before ``sf.10``."""
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text)
    )

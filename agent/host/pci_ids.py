"""What people call a piece of hardware, from the system's pci.ids database (pci.ids(5)).

The file is looked for below the host root, then on this system; without one nothing has a name.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent.roots import Roots

_PLACES = (
    "/usr/share/hwdata/pci.ids",
    "/usr/share/misc/pci.ids",
    "/usr/share/misc/pci.ids.gz",
    "/var/lib/pciutils/pci.ids",
)
_ID_LENGTH = 4

Hardware = tuple[str, str]
"""Vendor id and device id, four lower-case hex digits each."""


class PciIds:
    """Names of hardware; the file is read when the first name is asked for, for those asked."""

    def __init__(self, roots: Roots) -> None:
        below = [roots.below(place) for place in _PLACES]
        self._places = tuple(dict.fromkeys([*below, *map(Path, _PLACES)]))
        self._known: dict[Hardware, str] = {}

    def title(self, vendor: str, device: str) -> str:
        """Vendor and device by name; the vendor alone, or nothing, where no more is known."""
        if (vendor, device) not in self._known:
            self.learn([(vendor, device)])
        return self._known[vendor, device]

    def learn(self, hardware: Iterable[Hardware]) -> None:
        """Read the names of all of these in one go."""
        wanted = {pair for pair in hardware if pair not in self._known}
        if wanted:
            self._known |= {**dict.fromkeys(wanted, ""), **titles(self._lines(), wanted)}

    def _lines(self) -> Iterator[str]:
        for place in self._places:
            try:
                is_packed = place.suffix == ".gz"
                with gzip.open(place, "rb") if is_packed else place.open("rb") as file:
                    for line in file:
                        yield line.decode(errors="replace")
            except OSError:
                continue
            return


def titles(lines: Iterable[str], wanted: set[Hardware]) -> Mapping[Hardware, str]:
    """The names of the wanted hardware; pure. Classes, which follow the devices, are not read."""
    by_vendor: dict[str, dict[str, Hardware]] = {}
    for pair in wanted:
        by_vendor.setdefault(pair[0], {})[pair[1]] = pair
    found: dict[Hardware, str] = {}
    vendor_name, devices = "", None
    for line in lines:
        if line.startswith("C "):
            break
        if line[:1] not in "#\t\n":
            devices = by_vendor.get(line[:_ID_LENGTH])
            vendor_name = line[_ID_LENGTH:].strip()
            if devices:
                found |= dict.fromkeys(devices.values(), vendor_name)
        elif devices and (known := devices.get(line[1 : 1 + _ID_LENGTH])) and line[0] == "\t":
            found[known] = f"{vendor_name} {line[1 + _ID_LENGTH :].strip()}"
    return found

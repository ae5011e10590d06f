"""Names of hardware, from the system's pci.ids database (pci.ids(5)).

The file is searched below the host root, then on this system; without a file there are no names.
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
    """Names of hardware; reads the file when a name is needed, and keeps only the names needed."""

    def __init__(self, roots: Roots) -> None:
        below = [roots.below(place) for place in _PLACES]
        self._places = tuple(dict.fromkeys([*below, *map(Path, _PLACES)]))
        self._known: dict[Hardware, str] = {}

    def title(self, vendor: str, device: str) -> str:
        """Names of vendor and device; only the vendor's, or empty, if the file has no more."""
        if (vendor, device) not in self._known:
            self.load([(vendor, device)])
        return self._known[vendor, device]

    def load(self, hardware: Iterable[Hardware]) -> None:
        """Read the names of all of these in one pass."""
        missing = {pair for pair in hardware if pair not in self._known}
        if missing:
            self._known |= {**dict.fromkeys(missing, ""), **titles(self._lines(), missing)}

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
    """The names of the ``wanted`` hardware; pure. Stops at the classes, after the devices."""
    by_vendor: dict[str, dict[str, Hardware]] = {}
    for pair in wanted:
        by_vendor.setdefault(pair[0], {})[pair[1]] = pair
    names: dict[Hardware, str] = {}
    vendor_name, devices = "", None
    for line in lines:
        if line.startswith("C "):
            break
        if line[:1] not in "#\t\n":
            devices = by_vendor.get(line[:_ID_LENGTH])
            vendor_name = line[_ID_LENGTH:].strip()
            if devices:
                names |= dict.fromkeys(devices.values(), vendor_name)
        elif devices and (hardware := devices.get(line[1 : 1 + _ID_LENGTH])) and line[0] == "\t":
            names[hardware] = f"{vendor_name} {line[1 + _ID_LENGTH :].strip()}"
    return names

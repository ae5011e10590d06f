"""PCI functions in bus/pci/devices (kernel ABI sysfs-bus-pci), with one small reader per fact."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from sys import intern

import attrs

from agent.attrs_classes import frozen
from agent.errors import AgentError
from agent.host import sysfs
from agent.model.address import bus_order, parse_bdf, parse_hex_id

BUS = "bus/pci/devices"
_ALL_NORMAL = re.compile(r"(?:[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\n)*+")
_UIO = re.compile(r"uio[0-9]+")
_INT_MAX = 2**31 - 1
_VIRTFN = "virtfn"


class MissingAttributeError(AgentError):
    """A function lacks ``attribute``, which every function has: it is being removed, or broken."""

    def __init__(self, attribute: str) -> None:
        super().__init__(f"no {attribute}")
        self.attribute = attribute


@frozen
class Identity:
    """What a function is, and its NUMA node."""

    pci_class: int
    """0xCCSSPP."""
    vendor: str
    device: str
    numa_node: int | None
    """None if the kernel does not know it."""


@frozen
class SriovFacts:
    """The SR-IOV capability of a PF."""

    total_vfs: int = 0
    num_vfs: int = 0
    index_of: Mapping[str, int] = attrs.field(factory=dict)
    """VF address -> N of the ``virtfnN`` link that points at it."""


def functions(bus: int) -> dict[str, str]:
    """PCI address in normal form -> name of its folder, for every function, in bus order."""
    return in_bus_order(sysfs.listing(bus))


def in_bus_order(entries: Iterable[str]) -> dict[str, str]:
    """The same from a listing of the bus."""
    names = sorted(entries)
    if _ALL_NORMAL.fullmatch("\n".join((*names, ""))):
        return dict(zip(names, names, strict=True))  # as the kernel writes all but VMD's
    normalised = {}
    for name in names:
        try:
            normalised[parse_bdf(name)] = name
        except ValueError:
            continue
    return {bdf: normalised[bdf] for bdf in sorted(normalised, key=bus_order)}


def folder_name(bus: int, bdf: str) -> str:
    """The name of one function's folder: the kernel writes addresses in their normal form."""
    return bdf if sysfs.exists(bus, bdf) else functions(bus).get(bdf, bdf)


def class_of(function: int) -> int:
    """The class code 0xCCSSPP; raises MissingAttributeError if it cannot be read."""
    return _class_code(sysfs.read_raw(function, "class"))


def identity(function: int) -> Identity:
    """The facts that every function has; raises MissingAttributeError if one is missing."""
    read = sysfs.read_raw
    return _identity(
        read(function, "class"),
        read(function, "vendor"),
        read(function, "device"),
        read(function, "numa_node"),
    )


def driver(function: int) -> str | None:
    """The bound driver; None without one."""
    name = sysfs.link_name(function, "driver")
    return intern(name) if name else None


def physfn(function: int) -> str | None:
    """The address of a VF's PF, which may be absent from this host; None = not a VF."""
    name = sysfs.link_name(function, "physfn")
    try:
        return parse_bdf(name) if name else None
    except ValueError:
        return None


def uio(function: int, driver_name: str | None) -> tuple[str, ...]:
    """The userspace I/O devices; only drivers with ``uio`` in their names create them."""
    if driver_name is None or "uio" not in driver_name:
        return ()
    return tuple(n for n in sysfs.names(function, "uio") if _UIO.fullmatch(n))


def acpi_index(function: int) -> str | None:
    """The index that firmware gives to an on-board device."""
    return sysfs.read_text(function, "acpi_index") if sysfs.exists(function, "acpi_index") else None


def sriov(function: int, entries: Collection[str], folders: Mapping[str, str]) -> SriovFacts:
    """The SR-IOV facts of a function that is not a VF, from its folder and the folder's listing.

    While VFs are being created, their links appear before the kernel updates ``sriov_numvfs``, so
    the larger number counts. Addresses that are among ``folders`` are the same string objects,
    since one is kept for each VF.
    """
    index_of = {}
    for entry in entries:
        if entry.startswith(_VIRTFN) and (number := entry.removeprefix(_VIRTFN)).isdecimal():
            name = sysfs.link_name(function, entry)
            if name is not None:
                listed = folders.get(name)
                index_of[listed if listed == name else name.lower()] = int(number)
    if not index_of and "sriov_totalvfs" not in entries and "sriov_numvfs" not in entries:
        return SriovFacts()
    return SriovFacts(
        total_vfs=sysfs.read_int(function, "sriov_totalvfs") or 0,
        num_vfs=max(sysfs.read_int(function, "sriov_numvfs") or 0, len(index_of)),
        index_of=index_of,
    )


@lru_cache(maxsize=1024)
def _identity(
    raw_class: bytes | None, vendor: bytes | None, device: bytes | None, node: bytes | None
) -> Identity:
    """One record for all functions that read the same, such as the VFs of a PF."""
    return Identity(
        pci_class=_class_code(raw_class),
        vendor=_hex_id(vendor, "vendor"),
        device=_hex_id(device, "device"),
        numa_node=_numa_node(node),
    )


def _class_code(raw: bytes | None) -> int:
    try:
        return int(raw or b"", 16)
    except ValueError:
        raise MissingAttributeError("class") from None


def _hex_id(raw: bytes | None, name: str) -> str:
    try:
        return parse_hex_id((raw or b"").decode(errors="replace").strip())
    except ValueError:
        raise MissingAttributeError(name) from None


def _numa_node(raw: bytes | None) -> int | None:
    """The node, an int in the kernel; -1 means that the kernel does not know it."""
    try:
        node = int(raw or b"-1")
    except ValueError:
        return None
    return node if 0 <= node <= _INT_MAX else None

"""PCI functions below bus/pci/devices (kernel ABI sysfs-bus-pci): one record per function."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from sys import intern

import attrs

from agent.errors import AgentError
from agent.host import sysfs, vfio
from agent.model.address import parse_bdf, parse_hex_id

BUS = "bus/pci/devices"
_VIRTFN = re.compile(r"virtfn(\d+)")
_VIRTIO = re.compile(r"virtio\d+")


class MissingAttributeError(AgentError):
    """A function lacks ``attribute``, which every function has: it is half gone, or broken."""

    def __init__(self, attribute: str) -> None:
        super().__init__(f"no {attribute}")
        self.attribute = attribute


@attrs.frozen
class PciFunction:
    """What sysfs says about one function itself, apart from its netdevs and RDMA devices."""

    bdf: str
    pci_class: int
    vendor: str
    device: str
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    noiommu: bool
    uio: tuple[str, ...]
    acpi_index: str | None
    net_folders: tuple[str, ...]
    """Folders, relative to the function's, that may hold its netdevs."""


@attrs.frozen
class SriovFacts:
    """The SR-IOV capability of a PF."""

    total_vfs: int = 0
    num_vfs: int = 0
    index_of: Mapping[str, int] = attrs.field(factory=dict)
    """VF address -> N of the ``virtfnN`` link that points at it."""


def functions(bus: int) -> dict[str, str]:
    """PCI address in normal form -> name of its folder, for every function on the bus."""
    found = {}
    for name in sysfs.listing(bus):
        try:
            found[parse_bdf(name)] = name
        except ValueError:
            continue
    return found


def folder_name(bus: int, bdf: str) -> str:
    """The name of one function's folder: the kernel writes addresses in their normal form."""
    return bdf if sysfs.exists(bus, bdf) else functions(bus).get(bdf, bdf)


def physfn(bus: int, folder_name: str) -> str | None:
    """The address of the PF that a function's ``physfn`` link names; None = it is no VF."""
    name = sysfs.link_name(bus, f"{folder_name}/physfn")
    if name is None:
        return None
    try:
        return intern(parse_bdf(name))
    except ValueError:
        return None


def class_of(function: int) -> int:
    """The class code 0xCCSSPP; raises MissingAttributeError where it cannot be read."""
    raw = sysfs.read_raw(function, "class")
    code = _class_code(raw) if raw else None
    if code is None:
        raise MissingAttributeError("class")
    return code


def read(
    function: int, bdf: str, pci_class: int, entries: Collection[str] | None = None
) -> PciFunction:
    """The facts of one function from its open folder.

    ``entries`` is the folder's listing where the caller has made one; without it each optional
    entry is asked for, which costs less than listing. Raises MissingAttributeError for a function
    without vendor or device id.
    """
    driver = sysfs.link_name(function, "driver")
    return PciFunction(
        bdf=bdf,
        pci_class=pci_class,
        vendor=_hex_attribute(function, "vendor"),
        device=_hex_attribute(function, "device"),
        driver=intern(driver) if driver else None,
        numa_node=_numa_node(sysfs.read_raw(function, "numa_node")),
        iommu_group=vfio.iommu_group(function),
        noiommu=vfio.is_noiommu(function, driver),
        uio=tuple(sysfs.names(function, "uio")) if _has(function, entries, "uio") else (),
        acpi_index=(
            sysfs.read_text(function, "acpi_index")
            if _has(function, entries, "acpi_index")
            else None
        ),
        net_folders=_net_folders(function, entries, driver),
    )


def sriov(function: int, entries: Collection[str]) -> SriovFacts:
    """The SR-IOV facts of a function that is no VF, from its folder and the folder's listing.

    While VFs are being made their links come before the count, so the higher of both counts.
    """
    index_of = {}
    for entry in entries:
        if found := _VIRTFN.fullmatch(entry):
            name = sysfs.link_name(function, entry)
            if name is not None:
                index_of[name.lower()] = int(found[1])
    if not index_of and "sriov_totalvfs" not in entries and "sriov_numvfs" not in entries:
        return SriovFacts()
    return SriovFacts(
        total_vfs=sysfs.read_int(function, "sriov_totalvfs") or 0,
        num_vfs=max(sysfs.read_int(function, "sriov_numvfs") or 0, len(index_of)),
        index_of=index_of,
    )


def _has(function: int, entries: Collection[str] | None, name: str) -> bool:
    return sysfs.exists(function, name) if entries is None else name in entries


def _net_folders(
    function: int, entries: Collection[str] | None, driver: str | None
) -> tuple[str, ...]:
    """``net``, and for virtio NICs ``virtioN/net``: their netdev belongs to the virtio device."""
    if entries is None and driver is not None and driver.startswith("virtio"):
        entries = sysfs.listing(function)
    folders = ("net",) if _has(function, entries, "net") else ()
    virtio = sorted(entry for entry in entries or () if _VIRTIO.fullmatch(entry))
    return (*folders, *(f"{entry}/net" for entry in virtio))


def _hex_attribute(function: int, name: str) -> str:
    raw = sysfs.read_raw(function, name)
    value = _hex_id(raw) if raw else None
    if value is None:
        raise MissingAttributeError(name)
    return value


@lru_cache(maxsize=1024)
def _class_code(raw: bytes) -> int | None:
    try:
        return int(raw, 16)
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _hex_id(raw: bytes) -> str | None:
    try:
        return intern(parse_hex_id(raw.decode(errors="replace").strip()))
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _numa_node(raw: bytes | None) -> int | None:
    """The node; -1 is how the kernel says that it does not know."""
    try:
        node = int(raw) if raw else -1
    except ValueError:
        return None
    return node if node >= 0 else None

"""Suggests the right place for a value that was written under the wrong selector.

It is called for messages only, on a value that its own selector could not read. It also handles
several values in one string.
"""

from __future__ import annotations

import json
import re

from agent.kinds import Kind
from agent.model.address import parse_bdf
from agent.selectors.link_types import parse_link_type
from agent.selectors.table import SELECTORS

_SHOWN_PARTS = 4
_SEPARATORS = re.compile(r"[,;\s]+")
_BEFORE_A_NAME = re.compile(r"[,;\s]+(?=[A-Za-z*])|[,;\s]+(?=[0-9A-Fa-f]+:)")
"""Separators between entries with ranges: a comma before a digit belongs to a range."""
_PAIR = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})", re.IGNORECASE)
_AUX_NAME = re.compile(r"[\w-]+\.([\w-]+)\.[0-9]+", re.ASCII)
_HEX_ID = re.compile(r"(?:0x)?[0-9a-f]{4}", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][\w.*?@-]*(#[0-9,-]*)?", re.ASCII)
_ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_COLON_RANGE = re.compile(r"([A-Za-z][\w.-]*):([0-9]+(?:[-,][0-9]+)*)", re.ASCII)
_VENDORS = {
    "intel": "8086",
    "mellanox": "15b3",
    "nvidia": "15b3",
    "broadcom": "14e4",
    "marvell": "177d",
    "qlogic": "1077",
    "chelsio": "1425",
    "amd": "1022",
    "pensando": "1dd8",
    "xilinx": "10ee",
}
_DRIVERS = frozenset(
    {
        *("vfio-pci", "igb_uio", "uio_pci_generic", "pci-pf-stub", "virtio-pci"),
        *("i40e", "i40evf", "iavf", "ice", "ixgbe", "ixgbevf", "igb", "igbvf", "igc", "idpf"),
        *("mlx4_core", "mlx5_core", "mlx5_core.sf", "mlx5_vfio_pci", "bnxt_en", "cxgb4", "cxgb4vf"),
        *("qede", "nfp", "ena", "ionic", "sfc", "hns3", "enic", "octeontx2-nicvf", "rvu_nicvf"),
    }
)


def better_place(key: str, raw: str, kind: Kind | None) -> str:
    """Where a value that selector ``key`` cannot match belongs and how to write it; may be empty.

    ``kind`` is the pool's device type; None = unknown.
    """
    value = _bare(raw)
    if not value or len(value) > 1000:
        return ""
    if several := _in_one_string(key, value):
        return several
    if key == "rootDevices" and _is_address(value.partition("#")[0]):
        return ""  # the selector is right: the range is wrong
    return _elsewhere(key, value, kind)


def _bare(raw: str) -> str:
    """The value without brackets, braces and quotes: some people write a list as a string."""
    value = raw.strip()
    if value[:1] in {"[", "{", "(", "'", '"'}:
        value = re.sub(r"""[][{}()"']""", "", value).strip()
    return value


def _in_one_string(key: str, value: str) -> str:
    """Several values of this or of another selector, joined by commas or blanks."""
    takes_ranges = key in {"pfNames", "rootDevices"}
    parts = [p for p in (_BEFORE_A_NAME if takes_ranges else _SEPARATORS).split(value) if p]
    if len(parts) < 2:
        return ""
    owner = next((k for k in (key, "pciAddresses", "rootDevices") if _all_read(k, parts)), None)
    if owner is None:
        return ""
    shown = [json.dumps(p) for p in parts[:_SHOWN_PARTS]] + ["..."] * (len(parts) > _SHOWN_PARTS)
    return f'one value for each string: write "{owner}": [{", ".join(shown)}]'


def _all_read(key: str, parts: list[str]) -> bool:
    try:
        for part in parts:
            SELECTORS[key].parse(part)
    except ValueError:
        return False
    return True


def _elsewhere(key: str, value: str, kind: Kind | None) -> str:
    if place := _address(key, value) or _with_more(key, value):
        return place
    if pair := _PAIR.fullmatch(value):
        ids = f'"vendors": ["{pair[1].lower()}"], "devices": ["{pair[2].lower()}"]'
        return f"it is a vendor and a device id: write {ids}"
    if aux := _AUX_NAME.fullmatch(value):
        return (
            f'it is the name of an auxiliary device: write "auxTypes": ["{aux[1]}"] '
            'in a pool of "deviceType": "auxNetDevice"'
        )
    lower = value.lower()
    if key != "vendors" and lower in _VENDORS.values():
        return f'it is a vendor id: write "vendors": ["{lower}"]'
    if key == "drivers" and _HEX_ID.fullmatch(value):
        return f'it is a device id: write "devices": ["{lower.removeprefix("0x")}"]'
    return _word(key, value, kind)


def _address(key: str, value: str) -> str:
    """A PCI address under a selector that takes none, or a range under one for single addresses."""
    name, has_range, _ = value.partition("#")
    try:
        address = parse_bdf(name)
    except ValueError:
        return ""
    if has_range or key == "pfNames":
        return (
            "rootDevices selects the functions of a PF by its PCI address: "
            f'write "rootDevices": ["{value}"]'
        )
    return (
        f'it is a PCI address: write "pciAddresses": ["{address}"] for this function, or '
        f'"rootDevices": ["{address}"] for the functions of this PF'
    )


def _with_more(key: str, value: str) -> str:
    """An address inside other text, or a name with a colon before its range."""
    if key in {"pciAddresses", "rootDevices"} and (address := _ADDRESS.search(value)):
        return f'write the address alone: "{key}": ["{address[0].lower()}"]'
    if key == "pfNames" and (ranged := _COLON_RANGE.fullmatch(value)):
        return f'indexes follow a #: write "pfNames": ["{ranged[1]}#{ranged[2]}"]'
    return ""


def _word(key: str, value: str, kind: Kind | None) -> str:
    lower = value.lower()
    known = (
        ("linkTypes", lower == "roce", '"linkTypes": ["ether"], "isRdma": true'),
        ("vendors", lower in _VENDORS, f'"vendors": ["{_VENDORS.get(lower)}"]'),
        ("drivers", lower in _DRIVERS, f'"drivers": ["{lower}"]'),
        ("linkTypes", _is_link_type(value), f'"linkTypes": ["{lower}"]'),
        ("auxTypes", lower == "sf", '"auxTypes": ["sf"]'),
    )
    for owner, fits, form in known:
        if fits:
            return f"it belongs to {owner}: write {form}" if owner != key else f"write {form}"
    return _name(key, value, kind) if _NAME.fullmatch(value) else ""


def _name(key: str, value: str, kind: Kind | None) -> str:
    """A word that may be a netdev's name, where a number or an address is expected."""
    if key not in {"vendors", "devices", "pciAddresses", "rootDevices", "acpiIndexes", "pKeys"}:
        return ""
    if kind is not None and not kind.has_netdev:
        return f"it looks like the name of a netdev, and deviceType {kind} has none"
    owner = "its PF" if key == "pciAddresses" else "a PF"
    return (
        f'if it is the name of the netdev of {owner}, write "pfNames": ["{value}"], which selects '
        "that PF's functions"
    )


def _is_address(value: str) -> bool:
    try:
        parse_bdf(value)
    except ValueError:
        return False
    return True


def _is_link_type(value: str) -> bool:
    try:
        parse_link_type(value)
    except ValueError:
        return False
    return True

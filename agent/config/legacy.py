"""The v2 layout of the Go plugin's file: recognised, named, and written anew in today's form."""

from __future__ import annotations

from typing import Any

from agent.config.findings import At, plain, quoted
from agent.config.json_positions import Member, Object
from agent.config.pool_keys import POOL_KEYS
from agent.model.address import parse_bdf
from agent.records import frozen
from agent.selectors import SELECTORS, Shape

_DRIVERS = {"vfio": "vfio-pci", "uio": "igb_uio"}
"""Device types of the v2 layout that meant a driver; the third, netdevice, meant any other."""
_PRIVATE = "additionalInfo"
_STILL_READ = tuple(k for k in POOL_KEYS if k not in {"resourceName", "resourcePrefix", _PRIVATE})
"""Keys that today's form of a pool keeps; no value of additionalInfo is ever shown."""


@frozen(eq=False)
class V2Pool:
    """A pool of the v2 layout."""

    dead_words: tuple[str, ...]
    """What in it is not read any more, as people wrote it."""
    translated: dict[str, Any] | None
    """The same pool in today's form; None where its addresses cannot be read."""

    @property
    def message(self) -> str:
        """What it is and why it is refused."""
        words = ", ".join(self.dead_words)
        return f"v2 layout: {words} went out of use, selectors took their place; pool refused"


def read_v2_pool(at: At) -> V2Pool | None:
    """A pool without selectors but with the words of the v2 layout; None for any other."""
    if not isinstance(at.value, Object):
        return None
    members = {m.key.lower(): m for m in at.value.members if m.node.value is not None}
    if "selectors" in members or not members.keys() & {"rootdevices", "sriovmode"}:
        return None
    dead = [members[key].key for key in ("rootdevices", "sriovmode") if key in members]
    device_type = _text(members.get("devicetype"))
    if device_type.lower() in {"netdevice", *_DRIVERS} and device_type != "netDevice":
        dead.append(f"deviceType {quoted(device_type)}")
    return V2Pool(tuple(dead), _translated(members, device_type.lower()))


def dead_device_type(word: str) -> str | None:
    """Words for a device type of the v2 layout in a pool of today's."""
    driver = _DRIVERS.get(word.lower())
    if driver is None:
        return None
    return f'{quoted(word)} is of the v2 layout: write netDevice and "drivers": ["{driver}"]'


def misplaced(member: Member) -> str | None:
    """Words for a key beside ``selectors`` that belongs inside, or nowhere any more."""
    lower = member.key.lower()
    if lower == "sriovmode":
        return f"{member.key} is of the v2 layout, not read: rootDevices inside selectors means VFs"
    key = next((k for k in SELECTORS if k.lower() == lower), None)
    if key is None:
        return None
    shown = _as_selector(SELECTORS[key].shape, plain(member.node))
    return f'{key} is not read at this level: move it into selectors, "{key}": {shown}'


def _as_selector(shape: Shape, value: object) -> str:
    """A value as its selector is written, as far as it can be shown."""
    if shape is Shape.BOOL:
        return str(value).lower() if isinstance(value, bool) else "true"
    if shape is Shape.CHOICE:
        return quoted(value) if isinstance(value, str) else '"..."'
    values = [value] if isinstance(value, str) else value
    if isinstance(values, list) and len(values) <= 4 and all(isinstance(v, str) for v in values):
        return f"[{', '.join(map(quoted, values))}]"
    return "[...]"


def _translated(members: dict[str, Member], device_type: str) -> dict[str, Any] | None:
    name, prefix = _text(members.get("resourcename")), _text(members.get("resourceprefix"))
    addresses = _addresses(members.get("rootdevices"))
    if not name or not addresses or _PRIVATE.lower() in members:
        return None
    with_vfs = "sriovmode" in members and members["sriovmode"].node.value is True
    selectors: dict[str, Any] = {"rootDevices" if with_vfs else "pciAddresses": addresses}
    if device_type in _DRIVERS:
        selectors["drivers"] = [_DRIVERS[device_type]]
    kept = {key: plain(members[key.lower()].node) for key in _STILL_READ if key.lower() in members}
    if device_type in {"netdevice", *_DRIVERS}:
        kept.pop("deviceType", None)
    named = {"resourcePrefix": prefix} if prefix else {}
    return {**named, "resourceName": name, **kept, "selectors": selectors}


def _addresses(member: Member | None) -> list[str]:
    raw = plain(member.node) if member else None
    known = []
    for value in raw if isinstance(raw, list) else []:
        try:
            known.append(parse_bdf(value))
        except (ValueError, AttributeError):
            return []
    return known


def _text(member: Member | None) -> str:
    value = member.node.value if member else None
    return value if isinstance(value, str) else ""

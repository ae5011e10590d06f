"""Recognises the v2 layout of the Go plugin's file and rewrites its pools in the current form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agent.attrs_classes import frozen
from agent.config.fields import find_kind
from agent.config.json_positions import Member, Object
from agent.config.problems import Located, describe, plain, quoted
from agent.config.schema import POOL_KEYS
from agent.kinds import KINDS, NET_DEVICE, Kind
from agent.selectors import SELECTORS, Selector, Shape
from agent.selectors.addresses import PCI_ADDRESSES
from agent.selectors.drivers import DRIVERS
from agent.selectors.pf_functions import ROOT_DEVICES
from agent.selectors.rdma import IS_RDMA
from agent.selectors.table import required_selectors

_OLD_TYPES: dict[str, dict[str, Any]] = {
    "netdevice": {},
    "vfio": {DRIVERS.key: ["vfio-pci"]},
    "vfio-pci": {DRIVERS.key: ["vfio-pci"]},
    "uio": {DRIVERS.key: ["igb_uio"]},
    "igb_uio": {DRIVERS.key: ["igb_uio"]},
    "rdma": {IS_RDMA.key: True},
}
"""Device types of the v2 layout, and of forks of it, in lower case -> the selectors they meant."""
_PRIVATE = "additionalInfo"
_STILL_READ = tuple(
    k for k in POOL_KEYS if k not in {"resourceName", "resourcePrefix", "deviceType", _PRIVATE}
)
"""Keys that are kept in the current form; values of additionalInfo are never shown."""

_TRANSLATED = {"rootdevices", "sriovmode", "devicetype", "resourcename", "resourceprefix"}
"""Keys, in lower case, that the current form expresses in another way."""
_MOST_LISTED = 5


@frozen(eq=False)
class V2Pool:
    """A pool of the v2 layout."""

    old_words: tuple[str, ...]
    """What in it is no longer read, as the file spells it."""
    translated: dict[str, Any] | None
    """The same pool in the current form, without additionalInfo; None = not translatable."""
    omitted: tuple[str, ...] = ()
    """What ``translated`` does not show, with the reason; one clause each."""

    @property
    def message(self) -> str:
        """What it is, why it is refused, and what the translation omits."""
        words = ", ".join(self.old_words)
        text = f"v2 layout: {words} went out of use, selectors took their place; pool refused"
        return "; ".join((text, *self.omitted))


def read_v2_pool(at: Located) -> V2Pool | None:
    """A pool without selectors but with keys of the v2 layout; None for any other pool."""
    if not isinstance(at.value, Object):
        return None
    members = {m.key.lower(): m for m in at.value.members if m.node.value is not None}
    if "selectors" in members or not members.keys() & {"rootdevices", "sriovmode"}:
        return None
    old = [members[key].key for key in ("rootdevices", "sriovmode") if key in members]
    device_type = _text(members.get("devicetype"))
    if device_type and device_type not in KINDS:
        old.append(f"deviceType {quoted(device_type)}")
    return _translate(members, device_type.lower(), tuple(old))


def old_device_type(word: str) -> str | None:
    """The message for a device type of the v2 layout in a current pool; None for any other."""
    meant = _OLD_TYPES.get(word.lower())
    if not meant:
        return None
    ((key, value),) = meant.items()
    return f'{quoted(word)} is of the v2 layout: write netDevice and "{key}": {json.dumps(value)}'


def misplaced(member: Member) -> str | None:
    """The message for a key beside ``selectors`` that belongs inside or is no longer read."""
    lower = member.key.lower()
    if lower == "sriovmode":
        return f"{member.key} is of the v2 layout, not read: rootDevices inside selectors means VFs"
    key = next((k for k in SELECTORS if k.lower() == lower), None)
    if key is None:
        return None
    shown = _as_selector(SELECTORS[key].shape, plain(member.node))
    return f'{key} is not read at this level: move it into selectors, "{key}": {shown}'


def _as_selector(shape: Shape, value: object) -> str:
    """A value as it is written inside ``selectors``, as far as it can be shown."""
    if shape is Shape.BOOL:
        return str(value).lower() if isinstance(value, bool) else "true"
    if shape is Shape.CHOICE:
        return quoted(value) if isinstance(value, str) else '"..."'
    values = [value] if isinstance(value, str) else value
    if isinstance(values, list) and len(values) <= 4 and all(isinstance(v, str) for v in values):
        return f"[{', '.join(map(quoted, values))}]"
    return "[...]"


def _translate(members: dict[str, Member], device_type: str, old_words: tuple[str, ...]) -> V2Pool:
    """The pool in the current form, if it names its devices."""
    name, prefix = _text(members.get("resourcename")), _text(members.get("resourceprefix"))
    key = ROOT_DEVICES.key if _is_true(members.get("sriovmode")) else PCI_ADDRESSES.key
    addresses, others = _addresses(members.get("rootdevices"), SELECTORS[key])
    if not name or not addresses:
        values = f": {_first(others)}" if others else ""
        lacks = f"rootDevices holds no PCI address{values}" if name else "it has no resourceName"
        return V2Pool(old_words, None, (f"it cannot be shown in today's form, since {lacks}",))
    kind = find_kind(device_type) or NET_DEVICE
    required = {k: SELECTORS[k].example for k in required_selectors(kind)}
    beside = {
        k: plain(members[k.lower()].node)
        for k, selector in SELECTORS.items()
        if k.lower() in members and k != ROOT_DEVICES.key and kind in selector.kinds
    }
    selectors = {key: addresses, **required, **beside, **_OLD_TYPES.get(device_type, {})}
    named = {"resourcePrefix": prefix} if prefix else {}
    typed = {} if kind is NET_DEVICE else {"deviceType": kind.name}
    kept = {k: plain(members[k.lower()].node) for k in _STILL_READ if k.lower() in members}
    translated = {**named, "resourceName": name, **typed, **kept, "selectors": selectors}
    shown = {*_TRANSLATED, _PRIVATE.lower(), *(k.lower() for k in (*beside, *kept))}
    keys = [m.key for lower, m in members.items() if lower not in shown]
    return V2Pool(old_words, translated, tuple(_omitted(members, others, keys, kind)))


def _omitted(
    members: dict[str, Member], others: list[str], keys: list[str], kind: Kind
) -> Iterator[str]:
    """What the translation omits: values without an address, keys, and additionalInfo."""
    if others:
        yield f"left out below, since they are no PCI addresses: {_first(others)}"
    if keys:
        yield f"left out below, since no {kind} pool has such keys: {_first(map(quoted, keys))}"
    if _PRIVATE.lower() in members:
        yield f"its {_PRIVATE} is not shown below: keep it"


def _is_true(member: Member | None) -> bool:
    """SriovMode as a boolean or as its text, which readers of the v2 layout refused."""
    value = member.node.value if member else None
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _addresses(member: Member | None, selector: Selector) -> tuple[list[str], list[str]]:
    """The addresses, in normal form and each once, and the texts of all other values.

    An address of a PF may have ranges of VFs.
    """
    raw = plain(member.node) if member else []
    addresses: dict[str, None] = {}
    others: list[str] = []
    for value in raw if isinstance(raw, list) else [raw]:
        try:
            addresses[str(selector.parse(value if isinstance(value, str) else ""))] = None
        except ValueError:
            others.append(quoted(value) if isinstance(value, str) else describe(value))
    return list(addresses), others


def _first(texts: Iterable[str]) -> str:
    """The first texts of a list, and how many more there are."""
    listed = list(texts)
    more = len(listed) - _MOST_LISTED
    return ", ".join(listed[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _text(member: Member | None) -> str:
    value = member.node.value if member else None
    return value if isinstance(value, str) else ""

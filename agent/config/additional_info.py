"""Reads ``additionalInfo`` of a pool. Its values may be secrets, so no message shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.config.json_positions import Object
from agent.config.problems import ConfigValueError, Located, quoted
from agent.model.address import parse_bdf

_AUX_NAME = re.compile(r"[\w-]+\.[\w-]+\.[0-9]+", re.ASCII)


def read_additional_info(at: Located) -> Mapping[str, Mapping[str, str]]:
    """``*``, PCI address in normal form or auxiliary name -> key -> value."""
    if not isinstance(at.value, Object):
        raise ConfigValueError(at, "wanted an object of objects")
    info: dict[str, dict[str, str]] = {}
    for member in at.value.members:
        values = at.member(member)
        device = _device(values, member.key)
        if device is None or values.value is None:
            continue
        if device in info:
            values.warning(f"{device} is given twice, both are joined", on_key=True)
        info.setdefault(device, {}).update(_values(values))
    return info


def _device(at: Located, key: str) -> str | None:
    """The device that a key names, in normal form; None if it can name none."""
    if key == "*" or _AUX_NAME.fullmatch(key):
        return key
    try:
        return parse_bdf(key)
    except ValueError:
        at.warning(
            f"{quoted(key)} is neither * nor a PCI address nor an auxiliary device's name "
            "(mlx5_core.sf.4): no device has it, its values are not used",
            on_key=True,
        )
        return None


def _values(at: Located) -> dict[str, str]:
    if not isinstance(at.value, Object):
        at.error("wanted an object of strings")
        return {}
    values: dict[str, str] = {}
    for member in at.value.members:
        value = member.node.value
        if value is None or isinstance(value, str):
            values[member.key] = value or ""
        else:
            at.member(member).error("wanted a string")
    return values

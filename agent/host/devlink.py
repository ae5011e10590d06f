"""Facts that only devlink has: DDP profiles and whether RDMA is enabled on a function.

Read by one generic netlink dump per fact, with numbers from uapi linux/devlink.h; on a laid-out
host from a file with the output of ``devlink -j dev info`` and ``devlink -j dev param show``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from agent.attrs_classes import frozen
from agent.host import netlink as wire
from agent.host import sysfs

DDP = "ddp"
ENABLE_RDMA = "enable_rdma"
FILE = "devlink.json"

_DDP_VERSION = "fw.app.name"  # Documentation/networking/devlink/ice.rst
_GENL_ID_CTRL = 16
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2
_CMD_PARAM_GET = 38
_CMD_INFO_GET = 51
_DEVLINK_VERSION = 1
_ATTR_DEV_NAME = 2
_ATTR_PARAM = 80
_ATTR_PARAM_NAME = 81
_ATTR_PARAM_VALUES_LIST = 84
_ATTR_PARAM_VALUE = 85
_ATTR_PARAM_VALUE_DATA = 86
_ATTR_PARAM_VALUE_CMODE = 87
_ATTR_INFO_VERSION_RUNNING = 101
_ATTR_INFO_VERSION_NAME = 103
_ATTR_INFO_VERSION_VALUE = 104
_CMODE_DRIVERINIT = 1
_GENL_HEADER = struct.Struct("=BBH")  # command, version, reserved


@frozen
class DevlinkFacts:
    """What devlink reports, by PCI address or auxiliary name; facts not asked for are empty.

    Devices of other buses are included; no function has their names.
    """

    ddp: Mapping[str, str] = attrs.field(factory=dict)
    """Running ``fw.app.name``."""
    enable_rdma: Mapping[str, bool] = attrs.field(factory=dict)
    """Parameter ``enable_rdma`` as the driver was initialised with."""


def from_kernel(needs: frozenset[str]) -> DevlinkFacts:
    """Ask the kernel for the facts in ``needs`` only; none on a kernel without devlink."""
    family = _family() if needs & {DDP, ENABLE_RDMA} else None
    if family is None:
        return DevlinkFacts()
    return DevlinkFacts(
        ddp=parse_info(_dump(family, _CMD_INFO_GET)) if DDP in needs else {},
        enable_rdma=parse_params(_dump(family, _CMD_PARAM_GET)) if ENABLE_RDMA in needs else {},
    )


def from_file(host: int) -> DevlinkFacts:
    """The facts in the ``devlink.json`` of a laid-out host; none without that file.

    ``{"info": {"pci/0000:3b:00.0": {"versions": {"running": {"fw.app.name": ...}}}},
    "param": {"pci/0000:3b:00.0": [{"name": "enable_rdma", "values": [{"value": true}]}]}}``,
    the two outputs of the devlink program in one object.
    """
    facts = _parse(sysfs.read_all(host, FILE))
    return DevlinkFacts() if isinstance(facts, str) else facts


def fault_of_file(host: Path) -> str | None:
    """What is wrong with the ``devlink.json`` of a laid-out host, which a scan ignores."""
    with sysfs.folder(host) as folder:
        facts = _parse(sysfs.read_all(folder, FILE)) if folder is not None else None
    return f"{host / FILE} {facts}: the agent ignores it" if isinstance(facts, str) else None


def _parse(raw: bytes) -> DevlinkFacts | str:
    """The facts in a file, or what is wrong with it; the file is not trusted."""
    try:
        content = json.loads(raw) if raw else {}
        return DevlinkFacts(
            ddp=_ddp_of_json(content.get("info", {})),
            enable_rdma=_enable_rdma_of_json(content.get("param", {})),
        )
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        return f"is not JSON: {error}"
    except (AttributeError, TypeError, KeyError, IndexError):
        return "is not in the form of `devlink -j dev info` and `devlink -j dev param show`"


def parse_info(messages: Iterable[bytes]) -> dict[str, str]:
    """Name -> running DDP profile, from the payloads of a DEVLINK_CMD_INFO_GET dump."""
    profiles = {}
    for message in messages:
        name, attributes = _instance(message)
        for kind, value in attributes:
            if name is None or kind != _ATTR_INFO_VERSION_RUNNING:
                continue
            version = dict(wire.attributes(value))
            if wire.text(version.get(_ATTR_INFO_VERSION_NAME, b"")) == _DDP_VERSION:
                profiles[name] = wire.text(version.get(_ATTR_INFO_VERSION_VALUE, b""))
    return {name: profile for name, profile in profiles.items() if profile}


def parse_params(messages: Iterable[bytes]) -> dict[str, bool]:
    """Name -> ``enable_rdma``, from the payloads of a DEVLINK_CMD_PARAM_GET dump.

    The value of a boolean parameter is a flag: present is true, absent is false.
    """
    enabled = {}
    for message in messages:
        name, attributes = _instance(message)
        param = dict(wire.attributes(dict(attributes).get(_ATTR_PARAM, b"")))
        if name is None or wire.text(param.get(_ATTR_PARAM_NAME, b"")) != ENABLE_RDMA:
            continue
        for kind, value in wire.attributes(param.get(_ATTR_PARAM_VALUES_LIST, b"")):
            if kind == _ATTR_PARAM_VALUE:
                fields = dict(wire.attributes(value))
                if fields.get(_ATTR_PARAM_VALUE_CMODE) == bytes([_CMODE_DRIVERINIT]):
                    enabled[name] = _ATTR_PARAM_VALUE_DATA in fields
    return enabled


def _instance(message: bytes) -> tuple[str | None, list[tuple[int, bytes]]]:
    """(device name, attributes) of one message, for a device of any bus."""
    attributes = list(wire.attributes(message[_GENL_HEADER.size :]))
    name = wire.text(dict(attributes).get(_ATTR_DEV_NAME, b""))
    return name or None, attributes


def _family() -> int | None:
    header = _GENL_HEADER.pack(_CTRL_CMD_GETFAMILY, 1, 0)
    name = wire.attribute(_CTRL_ATTR_FAMILY_NAME, b"devlink\0")
    question = wire.request(_GENL_ID_CTRL, header + name, dump=False)
    try:
        replies = list(wire.answer(wire.NETLINK_GENERIC, question))
    except OSError:  # ENOENT: this kernel has no devlink, or no driver that uses it
        return None
    for reply in replies:
        value = dict(wire.attributes(reply[_GENL_HEADER.size :])).get(_CTRL_ATTR_FAMILY_ID)
        if value is not None:
            return int(struct.unpack_from("=H", value)[0])
    return None


def _dump(family: int, command: int) -> list[bytes]:
    """The kernel's replies, up to an error; none on a kernel that does not know this dump."""
    header = _GENL_HEADER.pack(command, _DEVLINK_VERSION, 0)
    replies: list[bytes] = []
    with suppress(OSError):
        replies.extend(wire.answer(wire.NETLINK_GENERIC, wire.request(family, header, dump=True)))
    return replies


def _ddp_of_json(info: Mapping[str, Any]) -> dict[str, str]:
    profiles = {}
    for handle, device in info.items():
        profile = device.get("versions", {}).get("running", {}).get(_DDP_VERSION)
        if profile:
            profiles[_device_name(handle)] = str(profile)
    return profiles


def _enable_rdma_of_json(param: Mapping[str, Any]) -> dict[str, bool]:
    return {
        _device_name(handle): bool(entry["values"][0]["value"])
        for handle, entries in param.items()
        for entry in entries
        if entry["name"] == ENABLE_RDMA
    }


def _device_name(handle: str) -> str:
    """``pci/0000:3b:00.0`` -> ``0000:3b:00.0``."""
    return handle.rpartition("/")[2]

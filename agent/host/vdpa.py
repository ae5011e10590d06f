"""vDPA devices (``bus/vdpa/devices``), each below the function that it accelerates."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.host import sysfs
from agent.model.device import VdpaDevice

BUS = "bus/vdpa/devices"
_TYPES = {"vhost_vdpa": "vhost", "virtio_vdpa": "virtio"}
_CHAR_DEVICE = re.compile(r"vhost-vdpa-\d+")
_PARENT = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[^/.]+\.[^/.]+\.\d+")


def read_bus(sys: int) -> Mapping[str, tuple[VdpaDevice, ...]]:
    """PCI address or auxiliary name of the parent -> its vDPA devices, sorted by name."""
    below: dict[str, list[VdpaDevice]] = {}
    for name in sysfs.class_names(sys, BUS):
        parent = _parent(sysfs.link_target(sys, f"{BUS}/{name}"))
        if parent is not None:
            below.setdefault(parent, []).append(_read(sys, name))
    return {parent: tuple(devices) for parent, devices in below.items()}


def _parent(target: str | None) -> str | None:
    """The nearest function or auxiliary device above a device's folder."""
    above = reversed(target.split("/")[:-1]) if target else ()
    return next((part for part in above if _PARENT.fullmatch(part)), None)


def _read(sys: int, name: str) -> VdpaDevice:
    entries = sysfs.names(sys, f"{BUS}/{name}")
    char_device = next((e for e in entries if _CHAR_DEVICE.fullmatch(e)), None)
    return VdpaDevice(
        name=name,
        type=_TYPES.get(sysfs.link_name(sys, f"{BUS}/{name}/driver") or ""),
        char_device=f"/dev/{char_device}" if char_device else None,
    )

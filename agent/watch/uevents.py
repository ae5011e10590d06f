"""Which kernel uevents can change what a scan sees, and of which functions.

The rest of a node's stream is passed by.
"""

from __future__ import annotations

import re

from agent.host.uevents import Uevent
from agent.model.snapshot import Snapshot
from agent.roots import Roots

_SUBSYSTEMS = frozenset(
    {
        "auxiliary",
        "infiniband",
        "infiniband_cm",
        "infiniband_mad",
        "infiniband_verbs",
        "misc",  # /dev/infiniband/rdma_cm, /dev/vhost-net
        "pci",
        "uio",
        "vdpa",
        "vfio",
        "vfio-dev",
        "vhost-vdpa",
        "virtio",
    }
)

_ELSEWHERE = frozenset({"infiniband_cm", "misc", "vdpa", "vfio", "vhost-vdpa"})
"""Subsystems of which every scan reads all there is to read. Of vfio's groups a function tells,
which has an event of its own when its driver makes one."""
_VIRTUAL_NET = "/devices/virtual/net/"
_ADDRESS = re.compile(r"(?<=/)[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")


def touched_by(event: Uevent) -> frozenset[str] | None:
    """The function of which ``event`` tells, if any; None = anything may have changed.

    A device's path leads through its function: the last PCI address in it.
    """
    if addresses := _ADDRESS.findall(event.devpath):
        return frozenset(addresses[-1:])
    return frozenset() if event.subsystem in _ELSEWHERE else None


def is_relevant(event: Uevent, snapshot: Snapshot, roots: Roots) -> bool:
    """Whether a scan could see what ``event`` tells of.

    Interfaces without hardware behind them (each pod start makes one) count only if the snapshot
    knows them, or if they rest on another interface as bonds, bridges and VLANs do.
    """
    if event.subsystem != "net":
        return event.subsystem in _SUBSYSTEMS
    if _VIRTUAL_NET not in event.devpath:
        return True
    name = event.interface or ""
    if name in snapshot.netdev_owner or name in dict(snapshot.netdev_parents):
        return True
    folder = roots.sys / "class" / "net" / name
    return event.action != "remove" and any(folder.glob("lower_*"))


def may_become_relevant(event: Uevent) -> bool:
    """Whether an interface was made that may yet be put on top of another one."""
    return (event.subsystem, event.action) == ("net", "add") and _VIRTUAL_NET in event.devpath

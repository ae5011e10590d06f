"""Decides which kernel uevents can change the result of a scan, and for which functions.

All other uevents of the node are ignored.
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
"""Subsystems that every scan reads in full. For a vfio group no function needs to be read again:
the function has its own event when its driver creates the group."""
_VIRTUAL_NET = "/devices/virtual/net/"
_ADDRESS = re.compile(r"(?<=/)[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")


def touched_by(event: Uevent) -> frozenset[str] | None:
    """The function that ``event`` concerns, if any; None = anything may have changed.

    The path of a device contains that of its function: the last PCI address in it.
    """
    if addresses := _ADDRESS.findall(event.devpath):
        return frozenset(addresses[-1:])
    return frozenset() if event.subsystem in _ELSEWHERE else None


def is_relevant(event: Uevent, snapshot: Snapshot, roots: Roots) -> bool:
    """Whether the change that ``event`` reports could change the result of a scan.

    Virtual interfaces (each pod start creates one) count only if the snapshot has them, or if they
    have a lower interface, as bonds, bridges and VLANs do.
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
    """Whether a virtual interface was created, which may get a lower interface later."""
    return (event.subsystem, event.action) == ("net", "add") and _VIRTUAL_NET in event.devpath

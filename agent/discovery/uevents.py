"""Which kernel uevents can change what a scan sees; the rest of a node's stream is passed by."""

from __future__ import annotations

from agent.host.netlink import Uevent
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


def is_relevant(event: Uevent, snapshot: Snapshot, roots: Roots) -> bool:
    """Whether a scan could see what ``event`` tells of.

    Interfaces without hardware behind them (each pod start makes one) count only if the snapshot
    knows them, or if they rest on another interface as bonds, bridges and VLANs do.
    """
    if event.subsystem != "net":
        return event.subsystem in _SUBSYSTEMS
    if "/devices/virtual/net/" not in event.devpath:
        return True
    name = event.interface or ""
    if name in snapshot.netdev_owner or name in dict(snapshot.netdev_parents):
        return True
    folder = roots.sys / "class" / "net" / name
    return event.action != "remove" and any(folder.glob("lower_*"))

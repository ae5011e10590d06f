"""RDMA devices and their character devices (kernel ABI sysfs-class-infiniband).

The classes of character devices are read once, not per device; each node's ``ibdev`` names the RDMA
device that it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import attrs

from agent.host import sysfs
from agent.model.device import RdmaDevice

_NODE_FOLDER = "/dev/infiniband"
# class folder -> (prefix of its entries, field of RdmaDevice); ucm ended with Linux 5.4
_CLASSES = {
    "class/infiniband_verbs": (("uverbs", "uverbs"),),
    "class/infiniband_mad": (("umad", "umad"), ("issm", "issm")),
    "class/infiniband_cm": (("ucm", "ucm"),),
}
_MODULE_OF_CLASS = {"class/infiniband_verbs": "ib_uverbs", "class/infiniband_mad": "ib_umad"}


@attrs.frozen
class RdmaHost:
    """What the host offers to RDMA devices as a whole."""

    devices: Mapping[str, RdmaDevice] = attrs.field(factory=dict)
    """RDMA devices that have character devices, by name."""
    rdma_cm: bool = False
    """Whether the connection manager's node exists."""
    missing_modules: tuple[str, ...] = ()
    """Kernel modules of which nothing is to be seen, sorted."""


def read_host(sys: int, dev: int | None) -> RdmaHost:
    """Read the classes of character devices once.

    A class folder that is absent or empty means that its module is not loaded (a loaded one shows
    at least ``abi_version``), which matters only if the host has RDMA devices at all.
    """
    nodes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    missing = []
    for class_folder, prefixes in _CLASSES.items():
        entries = sysfs.names(sys, class_folder)
        if not entries and class_folder in _MODULE_OF_CLASS:
            missing.append(_MODULE_OF_CLASS[class_folder])
        for entry in entries:
            kind = next((field for prefix, field in prefixes if entry.startswith(prefix)), None)
            owner = sysfs.read_text(sys, f"{class_folder}/{entry}/ibdev") if kind else None
            if kind and owner:
                nodes[owner][kind].append(f"{_NODE_FOLDER}/{entry}")
    rdma_cm = dev is not None and sysfs.exists(dev, "infiniband/rdma_cm")
    if not rdma_cm:
        missing.append("rdma_ucm")
    return RdmaHost(
        devices={
            name: RdmaDevice(name, **{kind: tuple(paths) for kind, paths in kinds.items()})
            for name, kinds in nodes.items()
        },
        rdma_cm=rdma_cm,
        missing_modules=tuple(sorted(missing)),
    )


def devices_of(owner: int, host: RdmaHost) -> tuple[RdmaDevice, ...]:
    """The RDMA devices in the ``infiniband`` folder of a function or auxiliary device, sorted."""
    return _devices(sysfs.names(owner, "infiniband"), host)


def pkey(owner: int, devices: tuple[RdmaDevice, ...]) -> int | None:
    """The P_Key at index 0 of port 1 of the first RDMA device; RoCE ports have one too."""
    if not devices:
        return None
    return sysfs.read_int(owner, f"infiniband/{devices[0].name}/ports/1/pkeys/0", base=16)


def _devices(names: Iterable[str], host: RdmaHost) -> tuple[RdmaDevice, ...]:
    return tuple(host.devices.get(name) or RdmaDevice(name) for name in names)

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

CLASS = "class/infiniband"
_FOLDER = "infiniband"
_NODE_FOLDER = "/dev/infiniband"
# class folder -> its entries without their numbers, which are also the fields of RdmaDevice;
# ucm ended with Linux 5.4
_CLASSES = {
    "class/infiniband_verbs": frozenset({"uverbs"}),
    "class/infiniband_mad": frozenset({"umad", "issm"}),
    "class/infiniband_cm": frozenset({"ucm"}),
}
_MODULE_OF_CLASS = {"class/infiniband_verbs": "ib_uverbs", "class/infiniband_mad": "ib_umad"}


@attrs.frozen
class RdmaHost:
    """What the host offers to RDMA devices as a whole."""

    devices: Mapping[str, RdmaDevice] = attrs.field(factory=dict)
    """RDMA devices that have character devices, by name."""
    below: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Function or auxiliary device -> names of its RDMA devices, as far as the class tells."""
    rdma_cm: bool = False
    """Whether the connection manager's node exists."""
    missing_modules: tuple[str, ...] = ()
    """Kernel modules of which nothing is to be seen, sorted."""


def read_host(sys: int, dev: int | None) -> RdmaHost:
    """Read the classes of RDMA devices and of their character devices once.

    A class folder that is absent or empty means that its module is not loaded (a loaded one shows
    at least ``abi_version``), which matters only if the host has RDMA devices at all.
    """
    nodes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    missing = []
    for class_folder, kinds in _CLASSES.items():
        with sysfs.folder(class_folder, sys) as folder:
            entries, owners = _nodes(folder) if folder is not None else ([], [])
        if not entries and class_folder in _MODULE_OF_CLASS:
            missing.append(_MODULE_OF_CLASS[class_folder])
        for entry, owner in zip(entries, owners, strict=True):
            kind = entry.rstrip("0123456789")
            if owner and kind in kinds:
                nodes[owner.decode(errors="replace").strip()][kind].append(entry)
    rdma_cm = dev is not None and sysfs.exists(dev, "infiniband/rdma_cm")
    if not rdma_cm:
        missing.append("rdma_ucm")
    return RdmaHost(
        devices={name: _device(name, kinds) for name, kinds in nodes.items()},
        below=_owners(sys),
        rdma_cm=rdma_cm,
        missing_modules=tuple(sorted(missing)),
    )


def devices_of(owner: int, owner_name: str, host: RdmaHost) -> tuple[RdmaDevice, ...]:
    """The RDMA devices of a function or auxiliary device, sorted by name.

    Those that the class links to it, or else those in its own ``infiniband`` folder.
    """
    names: Iterable[str] = host.below.get(owner_name, ())
    if not names and sysfs.exists(owner, _FOLDER):
        names = sysfs.names(owner, _FOLDER)
    return tuple(host.devices.get(name) or RdmaDevice(name) for name in names)


def pkey(owner: int, devices: tuple[RdmaDevice, ...]) -> int | None:
    """The P_Key at index 0 of port 1 of the first RDMA device; RoCE ports have one too."""
    if not devices:
        return None
    return sysfs.read_int(owner, f"{_FOLDER}/{devices[0].name}/ports/1/pkeys/0", base=16)


def _nodes(class_folder: int) -> tuple[list[str], list[bytes | None]]:
    """The entries of a class and the RDMA device that each belongs to."""
    entries = sorted(sysfs.listing(class_folder))
    return entries, sysfs.read_raws(class_folder, [f"{entry}/ibdev" for entry in entries])


def _owners(sys: int) -> dict[str, tuple[str, ...]]:
    """The kernel links ``class/infiniband/<name>`` to ``<owner>/infiniband/<name>``."""
    below: dict[str, list[str]] = {}
    with sysfs.folder(CLASS, sys) as folder:
        if folder is None:
            return {}
        for name in sorted(sysfs.listing(folder)):
            parts = (sysfs.link_target(folder, name) or "").split("/")
            if parts[-2:] == [_FOLDER, name] and len(parts) > 2:
                below.setdefault(parts[-3], []).append(name)
    return {owner: tuple(names) for owner, names in below.items()}


def _device(name: str, nodes: Mapping[str, list[str]]) -> RdmaDevice:
    paths = {kind: tuple(f"{_NODE_FOLDER}/{n}" for n in names) for kind, names in nodes.items()}
    return RdmaDevice(name, **paths)

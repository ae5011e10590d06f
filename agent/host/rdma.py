"""RDMA devices and their character devices (kernel ABI sysfs-class-infiniband).

The classes of character devices are read once, not per device; each node's ``ibdev`` names the RDMA
device that it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

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
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds}
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
    listed: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """What each class lists."""
    is_told: bool = False
    """Whether the classes tell of each device and each node to whom it belongs."""


def read_host(
    sys: int,
    dev: int | None,
    before: RdmaHost | None = None,
    touched: Collection[str] = frozenset(),
) -> RdmaHost:
    """Read the classes of RDMA devices and of their character devices once.

    A class folder that is absent or empty means that its module is not loaded (a loaded one shows
    at least ``abi_version``), which matters only if the host has RDMA devices at all. Of what was
    there ``before`` only that of the ``touched`` owners is asked again to whom it belongs.
    """
    listed = {name: frozenset(sysfs.names(sys, name)) for name in (*_CLASSES, CLASS)}
    rdma_cm = dev is not None and sysfs.exists(dev, "infiniband/rdma_cm")
    missing = [module for name, module in _MODULE_OF_CLASS.items() if not listed[name]]
    host = RdmaHost(
        rdma_cm=rdma_cm,
        missing_modules=tuple(sorted(missing if rdma_cm else (*missing, "rdma_ucm"))),
        listed=listed,
    )
    if before and listed == before.listed and _is_as_it_was(sys, before, touched):
        return attrs.evolve(host, devices=before.devices, below=before.below, is_told=True)
    others = before.below.items() if before else ()
    kept = {name: owner for owner, names in others if owner not in touched for name in names}
    devices, strangers = _devices(sys, host, before, kept)
    below = _owners(sys, listed[CLASS], kept)
    placed = set(chain.from_iterable(below.values()))
    return attrs.evolve(
        host, devices=devices, below=below, is_told=not strangers and devices.keys() <= placed
    )


def _is_as_it_was(sys: int, before: RdmaHost, touched: Collection[str]) -> bool:
    """Whether classes that list what they listed still say the same of the touched owners."""
    return before.is_told and all(
        _owner(sys, name) == owner
        and all(_ibdev(sys, _CLASS_OF[_kind(e)], e) == name for e in _entries(before, name))
        for owner in touched
        for name in before.below.get(owner, ())
    )


def _devices(
    sys: int, host: RdmaHost, before: RdmaHost | None, kept: Collection[str]
) -> tuple[dict[str, RdmaDevice], bool]:
    """The devices with their nodes; and whether there are nodes that belong to none."""
    known = {e: name for name in kept for e in _entries(before, name)} if before else {}
    nodes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    strangers = False
    for class_folder, kinds in _CLASSES.items():
        for entry in sorted(host.listed[class_folder]):
            kind = _kind(entry)
            if kind not in kinds:
                continue
            owner = known.get(entry) or _ibdev(sys, class_folder, entry)
            if owner:
                nodes[owner][kind].append(entry)
            else:
                strangers = True
    return {name: _device(name, of_kind) for name, of_kind in nodes.items()}, strangers


def _kind(entry: str) -> str:
    return entry.rstrip("0123456789")


def _entries(host: RdmaHost, name: str) -> Iterator[str]:
    """The class entries of an RDMA device's nodes."""
    device = host.devices.get(name)
    return (node.rpartition("/")[2] for node in device.nodes) if device else iter(())


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


def _ibdev(sys: int, class_folder: str, entry: str) -> str:
    """The RDMA device that a node belongs to, empty for none."""
    raw = sysfs.read_raw(sys, f"{class_folder}/{entry}/ibdev") or b""
    return raw.decode(errors="replace").strip()


def _owners(
    sys: int, names: Collection[str], known: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Owner -> its RDMA devices, in their order."""
    below: dict[str, list[str]] = {}
    for name in sorted(names):
        owner = known.get(name) or _owner(sys, name)
        if owner is not None:
            below.setdefault(owner, []).append(name)
    return {owner: tuple(found) for owner, found in below.items()}


def _owner(sys: int, name: str) -> str | None:
    """The kernel links ``class/infiniband/<name>`` to ``<owner>/infiniband/<name>``."""
    parts = (sysfs.link_target(sys, f"{CLASS}/{name}") or "").split("/")
    return parts[-3] if parts[-2:] == [_FOLDER, name] and len(parts) > 2 else None


def _device(name: str, nodes: Mapping[str, list[str]]) -> RdmaDevice:
    paths = {kind: tuple(f"{_NODE_FOLDER}/{n}" for n in names) for kind, names in nodes.items()}
    return RdmaDevice(name, **paths)

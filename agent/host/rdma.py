"""RDMA devices and their character devices (kernel ABI sysfs-class-infiniband).

The classes of character devices are read once, not per device; each node's ``ibdev`` names the RDMA
device that it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

import attrs

from agent.attrs_classes import frozen
from agent.host import sysfs
from agent.model.device import InfinibandPort, RdmaDevice

CLASS = "class/infiniband"
_FOLDER = "infiniband"
_NODE_FOLDER = "/dev/infiniband"
_KINDS = ("uverbs", "umad", "issm", "ucm")  # as RdmaDevice has them; ucm ended with Linux 5.4
# class folder -> its entries without their numbers
_CLASSES = {
    "class/infiniband_verbs": frozenset({"uverbs"}),
    "class/infiniband_mad": frozenset({"umad", "issm"}),
    "class/infiniband_cm": frozenset({"ucm"}),
}
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds}
_MODULE_OF_CLASS = {"class/infiniband_verbs": "ib_uverbs", "class/infiniband_mad": "ib_umad"}


@frozen
class RdmaHost:
    """The RDMA devices of a host, with facts that concern all of them."""

    devices: Mapping[str, RdmaDevice] = attrs.field(factory=dict)
    """RDMA devices that have character devices, by name."""
    below: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Function or auxiliary device -> names of its RDMA devices, if the class has links."""
    rdma_cm: bool = False
    """Whether the node of the RDMA connection manager exists."""
    missing_modules: tuple[str, ...] = ()
    """Kernel modules that seem not to be loaded, sorted."""
    listed: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """The entries of each class folder, in the folder's order."""
    has_all_owners: bool = False
    """Whether the classes name the owner of each device and of each node."""


_NOTHING = RdmaHost()


def read_host(
    sys: int,
    dev: int | None,
    before: RdmaHost | None = None,
    touched: Collection[str] | None = None,
) -> RdmaHost:
    """Read the classes of RDMA devices and of their character devices once.

    A class folder that is absent or empty means that its module is not loaded (a loaded one shows
    at least ``abi_version``), which matters only if the host has RDMA devices at all. For devices
    and nodes of the ``before`` scan, the owner is read again only if it is one of ``touched``;
    None = for all of them. Unchanged results stay the same object.
    """
    before = before or _NOTHING
    if touched is not None and _is_unchanged(sys, before, touched):
        host = before
    else:
        host = _read(sys, before, touched)
    rdma_cm = dev is not None and sysfs.exists(dev, "infiniband/rdma_cm")
    missing = [module for name, module in _MODULE_OF_CLASS.items() if not host.listed[name]]
    return attrs.evolve(
        host,
        rdma_cm=rdma_cm,
        missing_modules=tuple(sorted(missing if rdma_cm else (*missing, "rdma_ucm"))),
    )


def _read(sys: int, before: RdmaHost, touched: Collection[str] | None) -> RdmaHost:
    listed = {name: _listing(sys, name, before) for name in (*_CLASSES, CLASS)}
    kept: dict[str, str] = {}
    if touched is not None:
        others = ((owner, names) for owner, names in before.below.items() if owner not in touched)
        kept = {name: owner for owner, names in others for name in names}
    devices, has_strangers = _devices(sys, listed, before, kept)
    below = _owners(sys, listed[CLASS], kept)
    placed = set(chain.from_iterable(below.values()))
    has_all_owners = not has_strangers and devices.keys() <= placed
    return RdmaHost(devices, below, listed=listed, has_all_owners=has_all_owners)


def _is_unchanged(sys: int, before: RdmaHost, touched: Collection[str]) -> bool:
    """Whether the classes have the same entries, and those of the touched owners the same owner."""
    return (
        before.has_all_owners
        and _lists_the_same(sys, before, touched)
        and all(
            _owner(sys, name) == owner
            and all(
                _ibdev(sys, f"{_CLASS_OF[_kind(e)]}/{e}") == name for e in _entries(before, name)
            )
            for owner in touched
            for name in before.below.get(owner, ())
        )
    )


def _lists_the_same(sys: int, before: RdmaHost, touched: Collection[str]) -> bool:
    """Whether the host has the same devices as before, and those of the touched owners their nodes.

    The node classes, with three nodes for each device, are listed only if a device of the touched
    owners lacks a node. A node appears together with its device, or when its module is loaded, and
    then an event names the device's owner.
    """
    classes = [CLASS, _CLASS_OF["ucm"]]
    if not all(_has_nodes(before, owner) for owner in touched):
        classes.extend(_MODULE_OF_CLASS)
    return all(_listing(sys, name, before) == before.listed[name] for name in classes)


def _has_nodes(before: RdmaHost, owner: str) -> bool:
    """Whether each RDMA device of an owner, if it has any, has all kinds of nodes."""
    devices = (before.devices.get(name) for name in before.below.get(owner, ()))
    return all(d is not None and d.uverbs and d.umad and d.issm for d in devices)


def _listing(sys: int, name: str, before: RdmaHost) -> tuple[str, ...]:
    """The entries of a class; the previous tuple if they are the same."""
    with sysfs.class_folder(name, sys) as folder:
        previous = before.listed.get(name, ())
        return sysfs.listing_again(folder, previous) if folder is not None else ()


def _devices(
    sys: int,
    listed: Mapping[str, Collection[str]],
    before: RdmaHost,
    kept: Collection[str],
) -> tuple[dict[str, RdmaDevice], bool]:
    """The devices with their nodes, and whether there are nodes that belong to no device."""
    device_of = {e: name for name in kept for e in _entries(before, name)}
    nodes: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in _CLASS_OF}
    for class_folder, kinds in _CLASSES.items():
        if not listed[class_folder]:
            continue
        with sysfs.folder(class_folder, sys) as folder:
            for entry in sorted(listed[class_folder]):
                kind = _kind(entry)
                if kind in kinds:
                    name = device_of.get(entry) or _ibdev(folder, entry)
                    others = nodes[kind].get(name, ())
                    nodes[kind][name] = (*others, f"{_NODE_FOLDER}/{entry}")
    uverbs, umad, issm, ucm = (nodes[kind].get for kind in _KINDS)
    devices = {
        name: RdmaDevice(name, uverbs(name, ()), umad(name, ()), issm(name, ()), ucm(name, ()))
        for name in set(chain.from_iterable(nodes.values()))
    }
    strangers = devices.pop("", None)
    for name in devices.keys() & before.devices.keys():
        if devices[name] == before.devices[name]:
            devices[name] = before.devices[name]
    return devices, strangers is not None


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
    if not names:
        if not sysfs.exists(owner, _FOLDER):
            return ()
        names = sysfs.names(owner, _FOLDER)
    return tuple([host.devices.get(name) or RdmaDevice(name) for name in names])


def pkey(owner: int, devices: tuple[RdmaDevice, ...]) -> int | None:
    """The P_Key at index 0 of port 1 of the first RDMA device; RoCE ports have one too."""
    if not devices:
        return None
    return sysfs.read_int(owner, f"{_FOLDER}/{devices[0].name}/ports/1/pkeys/0", base=16)


def infiniband_ports(
    owner: int, devices: Iterable[RdmaDevice], *, is_infiniband: bool
) -> Iterator[InfinibandPort]:
    """The InfiniBand ports of a function's RDMA devices, with their present states.

    sysfs shows a state as ``4: ACTIVE``. ``is_infiniband`` decides for a port whose ``link_layer``
    cannot be read. The other ports are RoCE ports, whose link is that of the netdev.
    """
    for device in devices:
        ports = f"{_FOLDER}/{device.name}/ports"
        numbers = (name for name in sysfs.names(owner, ports) if name.isdecimal())
        for number in sorted(numbers, key=int):
            port = f"{ports}/{number}"
            layer = sysfs.read_text(owner, f"{port}/link_layer")
            if layer == "InfiniBand" or (layer is None and is_infiniband):
                state, phys_state = (_word(owner, f"{port}/{n}") for n in ("state", "phys_state"))
                yield InfinibandPort(device.name, int(number), state, phys_state)


def _word(owner: int, path: str) -> str | None:
    """The word of an attribute such as ``4: ACTIVE``."""
    text = sysfs.read_text(owner, path)
    return (text.rpartition(":")[2].strip() or None) if text else None


def port_state(sys: int, port: InfinibandPort) -> str | None:
    """The port's present state in the RDMA class; ``sys`` is the open folder of sysfs."""
    return _word(sys, f"{CLASS}/{port.rdma}/ports/{port.number}/state")


def has_nodes_of(sys: int, owner: int, devices: tuple[RdmaDevice, ...]) -> bool:
    """Whether an owner has these RDMA devices, and each of their nodes still belongs to them."""
    return sysfs.names(owner, _FOLDER) == sorted(d.name for d in devices) and all(
        _ibdev(sys, f"{_CLASS_OF[_kind(entry)]}/{entry}") == device.name
        for device in devices
        for entry in (node.rpartition("/")[2] for node in device.nodes)
    )


def _ibdev(within: int | None, entry: str) -> str:
    """The RDMA device that a node belongs to, empty for none."""
    return (within is not None and sysfs.read_text(within, f"{entry}/ibdev")) or ""


def _owners(
    sys: int, names: Collection[str], owner_of: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Owner -> its RDMA devices, sorted."""
    below: dict[str, list[str]] = {}
    for name in sorted(names):
        owner = owner_of.get(name) or _owner(sys, name)
        if owner is not None:
            below.setdefault(owner, []).append(name)
    return {owner: tuple(devices) for owner, devices in below.items()}


def _owner(sys: int, name: str) -> str | None:
    """The kernel links ``class/infiniband/<name>`` to ``<owner>/infiniband/<name>``."""
    owner, _, last = (sysfs.link_target(sys, f"{CLASS}/{name}") or "").rpartition(f"/{_FOLDER}/")
    return owner.rpartition("/")[2] if owner and last == name else None

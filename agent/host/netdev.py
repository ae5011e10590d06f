"""Network interfaces as ``class/net/<if>`` shows them (kernel ABI sysfs-class-net)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import filterfalse

import attrs

from agent.attrs_classes import frozen
from agent.host import sysfs
from agent.host.switchdev import is_representor
from agent.model.device import Netdev

CLASS = "class/net"
_IFF_UP = 0x1
_SPEED_UNKNOWN = 0xFFFFFFFF
_VIRTIO = re.compile(r"virtio\d+")
_LINK_TYPES = {1: "ether", 32: "infiniband"}  # ARPHRD_ETHER, ARPHRD_INFINIBAND


@frozen
class NetClass:
    """The class folder, and the owners of netdevs as its links name them."""

    folder: int | None = None
    """Open folder ``class/net``."""
    below: Mapping[str, tuple[tuple[str, str], ...]] = attrs.field(factory=dict)
    """Function or auxiliary device -> (name, path below it) of each of its netdevs, sorted."""
    names: tuple[str, ...] = ()
    """Everything that the class folder lists, in no order."""


def read_class(
    folder: int | None, previous: tuple[str, ...] = (), skipped: Container[str] = ()
) -> NetClass:
    """Follow the links of the class folder, one call for each netdev that is not ``skipped``.

    ``previous`` is the listing of the previous scan.

    The kernel links ``class/net/<if>`` to ``<owner>/net/<if>``, with ``virtioN`` in between for
    virtio NICs. A laid-out tree may have plain folders there, which say nothing here.
    """
    below: dict[str, list[tuple[str, str]]] = {}
    if folder is None:
        return NetClass()
    names = sysfs.listing_again(folder, previous)
    for name in sorted(filterfalse(skipped.__contains__, names)):
        above, _, last = (sysfs.link_target(folder, name) or "").rpartition("/net/")
        further, _, owner = above.rpartition("/")
        if last != name or not further:
            continue
        path = f"net/{name}"
        if owner.startswith("virtio"):
            owner, path = further.rpartition("/")[2], f"{owner}/{path}"
        below.setdefault(owner, []).append((name, path))
    return NetClass(folder, {owner: tuple(netdevs) for owner, netdevs in below.items()}, names)


def listed(owner: int, entries: Collection[str]) -> Iterator[tuple[str, str]]:
    """(name, path below the owner) of each netdev in the owner's folders, given its listing.

    A virtio NIC's netdev belongs to the virtio device below the function.
    """
    folders = ["net"] if "net" in entries else []
    below_virtio = [e for e in entries if e.startswith("virtio") and _VIRTIO.fullmatch(e)]
    folders.extend(f"{e}/net" for e in sorted(below_virtio))
    for folder in folders:
        for name in sysfs.names(owner, folder):
            yield name, f"{folder}/{name}"


def has_any(owner: int, driver: str | None) -> bool:
    """Whether listing an owner's folder may show netdevs; asks without listing it."""
    return sysfs.exists(owner, "net") or (driver is not None and driver.startswith("virtio"))


def read_brief(owner: int, path: str, name: str) -> Netdev | None:
    """A VF's netdev: only what selectors and health ask of it, since there are thousands.

    ``path`` is below ``owner``. None where the netdev is gone again. A netdev that is down is not
    asked for its carrier: the kernel would answer EINVAL.
    """
    raw_type = sysfs.read_raw(owner, f"{path}/type")
    flags = sysfs.read_raw(owner, f"{path}/flags")
    if raw_type is None and flags is None:
        return None
    link_type, admin_up = _link(raw_type, flags)
    carrier = None if admin_up is False else _flag(sysfs.read_raw(owner, f"{path}/carrier"))
    return Netdev(name, sysfs.read_int(owner, f"{path}/ifindex"), link_type, admin_up, carrier)


def read_whole(net: NetClass, owner: int, name: str, path: str) -> Netdev | None:
    """Any other function's netdev, with its place in an eswitch and what is stacked on it.

    Attributes come from below the owner, since the name may be that of another interface by now; of
    a tree that has them in the class folder alone, from there.
    A representor is read no further than its port: a PF may have hundreds.
    """
    netdev = sysfs.open_folder(path, owner)
    if net.folder is not None and (netdev is None or not sysfs.exists(netdev, "ifindex")):
        of_class = sysfs.open_folder(name, net.folder)
        if of_class is not None and netdev is not None:
            os.close(netdev)
        netdev = netdev if of_class is None else of_class
    if netdev is None:
        return None
    try:
        port = read_port(netdev, name)
        return port if is_representor(port) else _read_rest(netdev, port)
    finally:
        os.close(netdev)


def read_port(netdev: int, name: str) -> Netdev:
    """Only the facts on a netdev's port of an eswitch; the kernel has none outside switchdev."""
    return Netdev(
        name=name,
        phys_switch_id=sysfs.read_text(netdev, "phys_switch_id"),
        phys_port_name=sysfs.read_text(netdev, "phys_port_name"),
    )


def read_bond(class_net: int, name: str) -> Netdev | None:
    """A bond; None if the interface is not a bond (without a folder ``bonding``), or is gone."""
    with sysfs.folder(name, class_net) as folder:
        if folder is None or not sysfs.exists(folder, "bonding"):
            return None
        return _read_rest(folder, Netdev(name))


def lowers(class_net: int, name: str) -> tuple[str, ...]:
    """The lower interfaces of an interface (its ``lower_*`` links), sorted."""
    return _stacked(sysfs.names(class_net, name), "lower_")


def _read_rest(netdev: int, port: Netdev) -> Netdev:
    entries = sorted(sysfs.listing(netdev))
    link_type, admin_up = _link(sysfs.read_raw(netdev, "type"), sysfs.read_raw(netdev, "flags"))
    return Netdev(
        name=port.name,
        ifindex=sysfs.read_int(netdev, "ifindex"),
        link_type=link_type,
        admin_up=admin_up,
        carrier=None if admin_up is False else _flag(sysfs.read_raw(netdev, "carrier")),
        operstate=sysfs.read_text(netdev, "operstate"),
        speed_mbps=_speed(sysfs.read_int(netdev, "speed")),
        phys_switch_id=port.phys_switch_id,
        phys_port_name=port.phys_port_name,
        uppers=_stacked(entries, "upper_"),
        master=sysfs.link_name(netdev, "master") if "master" in entries else None,
        dev_port=sysfs.read_int(netdev, "dev_port") if link_type == "infiniband" else None,
    )


def _stacked(entries: Iterable[str], prefix: str) -> tuple[str, ...]:
    return tuple(e.removeprefix(prefix) for e in entries if e.startswith(prefix))


@lru_cache(maxsize=256)
def _link(raw_type: bytes | None, flags: bytes | None) -> tuple[str | None, bool | None]:
    """(link type, whether it is administratively up); cached, since few combinations exist."""
    number = _number(raw_type)
    bits = _number(flags, base=16)
    return (
        None if number is None else _LINK_TYPES.get(number, str(number)),
        None if bits is None else bool(bits & _IFF_UP),
    )


def _number(raw: bytes | None, base: int = 10) -> int | None:
    try:
        return int(raw, base) if raw else None
    except ValueError:
        return None


def _speed(speed: int | None) -> int | None:
    """Mbit/s; SPEED_UNKNOWN is -1, which older kernels print without its sign."""
    return speed if speed is not None and 0 < speed < _SPEED_UNKNOWN else None


def _flag(raw: bytes | None) -> bool | None:
    return raw.strip() == b"1" if raw else None

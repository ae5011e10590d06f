"""Network interfaces as ``class/net/<if>`` tells (kernel ABI sysfs-class-net)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from agent.host import sysfs
from agent.host.switchdev import is_representor
from agent.model.device import Netdev

CLASS = "class/net"
_IFF_UP = 0x1
_LINK_TYPES = {1: "ether", 32: "infiniband"}  # ARPHRD_ETHER, ARPHRD_INFINIBAND


def below(function: int, net_folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, path below the function) of every netdev of a function."""
    for folder in net_folders:
        for name in sysfs.names(function, folder):
            yield name, f"{folder}/{name}"


def read_brief(class_net: int | None, owner: int, name: str, path: str) -> Netdev | None:
    """A VF's netdev: only what selectors and health ask of it, since there are thousands.

    Attributes come from the class folder, which both kernels and laid-out trees have, or else from
    below the owner. None where the netdev is gone again. A netdev that is down is not asked for
    its carrier: the kernel would answer EINVAL.
    """
    netdev = _open(class_net, owner, name, path)
    if netdev is None:
        return None
    try:
        admin_up = _admin_up(sysfs.read_raw(netdev, "flags"))
        return Netdev(
            name=name,
            ifindex=sysfs.read_int(netdev, "ifindex"),
            link_type=_link_type(sysfs.read_raw(netdev, "type")),
            admin_up=admin_up,
            carrier=None if admin_up is False else _flag(sysfs.read_raw(netdev, "carrier")),
        )
    finally:
        os.close(netdev)


def read_whole(class_net: int | None, owner: int, name: str, path: str) -> Netdev | None:
    """Any other function's netdev, with its place in an eswitch and what is stacked on it.

    A representor is read no further than its port: a PF may have hundreds.
    """
    netdev = _open(class_net, owner, name, path)
    if netdev is None:
        return None
    try:
        port = read_port(netdev, name)
        return port if is_representor(port) else _read_rest(netdev, port)
    finally:
        os.close(netdev)


def read_port(netdev: int, name: str) -> Netdev:
    """Only the facts that place a netdev in an eswitch; the kernel has none outside switchdev."""
    return Netdev(
        name=name,
        phys_switch_id=sysfs.read_text(netdev, "phys_switch_id"),
        phys_port_name=sysfs.read_text(netdev, "phys_port_name"),
    )


def lowers(class_net: int, name: str) -> tuple[str, ...]:
    """The interfaces that an interface rests on (its ``lower_*`` links), sorted."""
    return _stacked(sysfs.names(class_net, name), "lower_")


def _read_rest(netdev: int, port: Netdev) -> Netdev:
    entries = sorted(sysfs.listing(netdev))
    speed = sysfs.read_int(netdev, "speed")
    admin_up = _admin_up(sysfs.read_raw(netdev, "flags"))
    return Netdev(
        name=port.name,
        ifindex=sysfs.read_int(netdev, "ifindex"),
        link_type=_link_type(sysfs.read_raw(netdev, "type")),
        admin_up=admin_up,
        carrier=None if admin_up is False else _flag(sysfs.read_raw(netdev, "carrier")),
        operstate=sysfs.read_text(netdev, "operstate"),
        speed_mbps=speed if speed is not None and speed > 0 else None,
        phys_switch_id=port.phys_switch_id,
        phys_port_name=port.phys_port_name,
        uppers=_stacked(entries, "upper_"),
        master=sysfs.link_name(netdev, "master") if "master" in entries else None,
    )


def _open(class_net: int | None, owner: int, name: str, path: str) -> int | None:
    found = None if class_net is None else sysfs.open_folder(name, class_net)
    return sysfs.open_folder(path, owner) if found is None else found


def _stacked(entries: Iterable[str], prefix: str) -> tuple[str, ...]:
    return tuple(e.removeprefix(prefix) for e in entries if e.startswith(prefix))


@lru_cache(maxsize=256)
def _admin_up(raw: bytes | None) -> bool | None:
    try:
        return bool(int(raw, 16) & _IFF_UP) if raw else None
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _link_type(raw: bytes | None) -> str | None:
    try:
        number = int(raw) if raw else None
    except ValueError:
        return None
    return None if number is None else _LINK_TYPES.get(number, str(number))


def _flag(raw: bytes | None) -> bool | None:
    return raw.strip() == b"1" if raw else None

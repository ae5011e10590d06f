"""Alternative names of netdevs (``ip link property add dev NAME altname OTHER``, Linux 5.5).

sysfs does not show them: the kernel is asked with one request for each netdev, without statistics.
A laid-out host has them in the file ``altnames.json``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from agent.host import netlink as wire
from agent.host import sysfs
from agent.host.rtnl_link import IFLA_PROP_LIST, altnames

ALTNAMES = "altnames"
"""Name of this need in ``scan(needs=...)``: it costs one request for each netdev of a PF."""
FILE = "altnames.json"

_RTM_GETLINK = 18  # uapi linux/rtnetlink.h
_IFINFOMSG_SIZE = 16
_IFLA_IFNAME, _IFLA_EXT_MASK = 3, 29  # uapi linux/if_link.h
_RTEXT_FILTER_SKIP_STATS = (8).to_bytes(4, sys.byteorder)


def altnames_of(name: str) -> tuple[str, ...]:
    """The alternative names of an interface in this network namespace, sorted; none if unknown.

    Raises OSError only if the process is out of descriptors or memory.
    """
    attributes = (
        wire.attribute(_IFLA_IFNAME, os.fsencode(name) + b"\0"),
        wire.attribute(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS),
    )
    question = wire.request(_RTM_GETLINK, bytes(_IFINFOMSG_SIZE) + b"".join(attributes), dump=False)
    try:
        for answer in wire.answer(socket.NETLINK_ROUTE, question):
            attributes_of_link = dict(wire.attributes(answer[_IFINFOMSG_SIZE:]))
            return altnames(attributes_of_link.get(IFLA_PROP_LIST))
    except OSError as error:
        sysfs.raise_if_exhausted(error)
    return ()


def from_file(host: int) -> Mapping[str, tuple[str, ...]]:
    """Netdev -> its alternative names, as a laid-out host has them in ``altnames.json``.

    ``{"ens1f0": ["sriov1"]}``; empty if there is no such file, or if it is damaged.
    """
    names = _parse(sysfs.read_all(host, FILE))
    return {} if isinstance(names, str) else names


def fault_of_file(host: Path) -> str | None:
    """What is wrong with the ``altnames.json`` of a laid-out host, which a scan ignores."""
    with sysfs.folder(host) as folder:
        names = _parse(sysfs.read_all(folder, FILE)) if folder is not None else {}
    return f"{host / FILE} {names}: the agent ignores it" if isinstance(names, str) else None


def _parse(raw: bytes) -> Mapping[str, tuple[str, ...]] | str:
    """The names in a file, or what is wrong with it; the file is not trusted."""
    try:
        content = json.loads(raw) if raw else {}
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        return f"is not JSON: {error}"
    if isinstance(content, dict) and all(map(_is_list_of_names, content.values())):
        return {netdev: tuple(sorted(names)) for netdev, names in content.items()}
    return "is not an object of lists of names"


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)

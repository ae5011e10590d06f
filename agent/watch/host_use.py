"""Which changes of interfaces change how the host uses a device's netdev; for the link monitor.

Events of the PFs' own netdevs come another way: every one of them is looked at there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from agent.host.addresses import name_of
from agent.host.route_events import LinkChange
from agent.model.device import Role
from agent.model.snapshot import Snapshot


def numbers(names: Iterable[str]) -> Iterator[int]:
    """The ifindexes of interfaces of this network namespace; those that are gone are left out."""
    for name in names:
        try:
            yield socket.if_nametoindex(name)
        except OSError:
            continue


def touched_by_link(change: LinkChange, snapshot: Snapshot) -> frozenset[str] | None:
    """The VF or SF to read again after a change of its netdev; None = it says nothing new.

    It joined or left a bond, bridge or the like since ``snapshot`` was taken.
    """
    owner = snapshot.netdev_owner.get(change.name)
    if owner is None or owner.role is Role.PF:
        return None
    scanned = next((n.master for n in owner.netdevs if n.name == change.name), None)
    known = dict(snapshot.masters).get(change.name, scanned)
    now = None if change.master is None else name_of(change.master)
    return None if known == now else frozenset({owner.id})

"""Decides which changes of interfaces change the host's use of a VF's or SF's netdev.

Events of PFs' netdevs are not handled here: the netlink watcher evaluates each of them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from agent.host.addresses import name_of
from agent.host.route_events import LinkChange
from agent.model.device import Role
from agent.model.snapshot import Snapshot


def numbers(names: Iterable[str]) -> Iterator[int]:
    """The ifindexes of interfaces of this network namespace; missing interfaces are left out."""
    for name in names:
        try:
            yield socket.if_nametoindex(name)
        except OSError:
            continue


def touched_by_link(change: LinkChange, snapshot: Snapshot) -> frozenset[str] | None:
    """The VF or SF to read again after a change of its netdev; None = nothing relevant changed.

    Relevant is that it joined or left a bond, a bridge or the like since ``snapshot`` was taken.
    """
    owner = snapshot.netdev_owner.get(change.name)
    if owner is None or owner.role is Role.PF:
        return None
    scanned = next((n.master for n in owner.netdevs if n.name == change.name), None)
    old_master = dict(snapshot.masters).get(change.name, scanned)
    new_master = None if change.master is None else name_of(change.master)
    return None if old_master == new_master else frozenset({owner.id})

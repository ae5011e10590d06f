"""Which functions the host itself uses, and how: they are kept out of pools unless allowed.

Handing the node's uplink to a pod cuts the node off, so the guard errs on the side of keeping. It
looks at default routes (of the main table, IPv4 and IPv6, multipath too) and, for PFs, at bonds,
bridges, teams and OVS bridges that they are part of, and at VLANs and the like on top of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.model.device import Device, Netdev, Role
from agent.model.snapshot import Snapshot


def functions_in_use(snapshot: Snapshot) -> Mapping[str, str]:
    """Device id -> how the host uses it, in one sentence; devices that are free are left out."""
    below = dict(snapshot.netdev_parents)
    route_under = _netdevs_under(snapshot.default_route_netdevs, below)
    reasons = ((d.id, _reason(d, route_under)) for d in snapshot.devices if d.netdevs)
    return {device_id: reason for device_id, reason in reasons if reason}


def _netdevs_under(
    tops: tuple[str, ...], below: Mapping[str, tuple[str, ...]]
) -> Mapping[str, str]:
    """Netdev name -> the default-route interface that it is or carries, through any stacking."""
    found: dict[str, str] = {}
    pending = [(top, top) for top in reversed(tops)]
    while pending:
        name, top = pending.pop()
        if name not in found:
            found[name] = top
            pending += [(lower, top) for lower in below.get(name, ())]
    return found


def _reason(device: Device, route_under: Mapping[str, str]) -> str:
    for netdev in device.netdevs:
        top = route_under.get(netdev.name)
        if top == netdev.name:
            return f"{netdev.name} carries the default route"
        if top is not None:
            return f"{netdev.name} carries {top}, which has the default route"
        if device.role is Role.PF and (use := _stacking(netdev)):
            return use
    return ""


def _stacking(netdev: Netdev) -> str:
    if netdev.master:
        return f"{netdev.name} is part of {netdev.master}"
    if netdev.uppers:
        return f"{netdev.name} carries {', '.join(netdev.uppers)}"
    return ""

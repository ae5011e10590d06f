"""Which functions the host itself uses, and how; pools do not get them unless allowed.

Allocating the node's uplink to a pod disconnects the node, so in doubt a function counts as in use.
The guard checks default routes (IPv4 and IPv6, including multipath, of each table that a rule
uses), the bonds, bridges, teams and OVS bridges that a netdev is part of, and VLANs and other
interfaces on top of it. For a VF or SF it also checks IP addresses and routes. For a PF it does
not: hosts configure addresses on ports that pools allocate all the same, as with the Go plugin.

A function whose class a pool selects by number may be the host's disk or display: it counts as in
use unless its driver is a userspace driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agent.attrs_classes import frozen
from agent.model.device import Device, Netdev, Role
from agent.model.pci_class import is_on_request
from agent.model.snapshot import Snapshot


def functions_in_use(snapshot: Snapshot) -> Mapping[str, str]:
    """Device id -> how the host uses it, in one sentence; free devices are omitted."""
    host = _host(snapshot)
    busy = host.busy
    found: dict[str, str] = {}
    suspects = {
        device.id: device
        for device in snapshot.devices
        for netdev in device.netdevs
        if netdev.name in busy or netdev.master or netdev.uppers
    }
    for device in suspects.values():
        if reason := _reason(device, host):
            found[device.id] = reason
    for device in filter(is_on_request, snapshot.devices):
        if device.driver and not device.is_vfio and "uio" not in device.driver:
            found.setdefault(device.id, _kernel_driver(device))
    for device in snapshot.devices if found else ():
        if device.role is Role.SF and device.pf_address and device.id in found:
            found.setdefault(device.pf_address, f"its sub-function {found[device.id]}")
    return found


def _kernel_driver(device: Device) -> str:
    """How a function of a class that was asked for by number is used, and the fix for a VF."""
    if device.role is Role.VF:
        return f"it has the kernel driver {device.driver}: bind vfio-pci to give it to pods"
    return f"the host's driver {device.driver} uses it"


@frozen
class _Host:
    """What the host has configured on its interfaces, by name."""

    default_route: Mapping[str, str]
    """Netdev -> the interface with a default route: the netdev itself or one on top of it."""
    uppers: Mapping[str, tuple[str, ...]]
    masters: Mapping[str, str]
    routed: frozenset[str]
    """Netdevs with an IP address and a route."""

    @property
    def busy(self) -> frozenset[str]:
        """All these netdevs; almost every device has none of them."""
        return self.routed.union(self.default_route, self.uppers, self.masters)


def _host(snapshot: Snapshot) -> _Host:
    uppers: defaultdict[str, list[str]] = defaultdict(list)
    for upper, lowers in snapshot.netdev_parents:
        for lower in lowers:
            uppers[lower].append(upper)
    return _Host(
        _netdevs_under(snapshot.default_route_netdevs, dict(snapshot.netdev_parents)),
        {lower: tuple(found) for lower, found in uppers.items()},
        dict(snapshot.masters),
        frozenset(snapshot.routed_netdevs),
    )


def _netdevs_under(tops: Iterable[str], below: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
    """Netdev -> the interface with a default route: itself or one on top of it, at any level."""
    found: dict[str, str] = {}
    pending = [(top, top) for top in reversed(tuple(tops))]
    while pending:
        name, top = pending.pop()
        if name not in found:
            found[name] = top
            pending += [(lower, top) for lower in below.get(name, ())]
    return found


def _reason(device: Device, host: _Host) -> str:
    for netdev in device.netdevs:
        name = netdev.name
        top = host.default_route.get(name)
        if top == name:
            return f"{name} carries the default route"
        if top is not None:
            return f"{name} carries {top}, which has the default route"
        if use := _stacking(netdev, host):
            return use
        if name in host.routed and device.role is not Role.PF:
            return f"{name} has an IP address and a route"
    return ""


def _stacking(netdev: Netdev, host: _Host) -> str:
    name = netdev.name
    if master := netdev.master or host.masters.get(name):
        return f"{name} is part of {master}"
    if uppers := netdev.uppers or host.uppers.get(name):
        return f"{name} carries {', '.join(uppers)}"
    return ""

"""Health check *link*: whether a device's traffic can leave the host.

The PF's carrier decides for its VFs and SFs, never a VF's own netdev, which is administratively
down while it is idle. A VF's link policy comes first. What is not known counts as healthy: a netdev
in a pod's namespace says nothing about faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.health.records import HEALTHY, Cause, Health
from agent.model.device import Device, Netdev, Role
from agent.model.link import Links, VfLinkPolicy
from agent.model.snapshot import Snapshot

_OPERSTATES_WITHOUT_CARRIER = frozenset({"down", "lowerlayerdown", "notpresent"})


def check_link(device: Device, snapshot: Snapshot, links: Links) -> Health:
    """Unhealthy where the link that carries the device's traffic is known to be dead."""
    return LinkJudge(snapshot, links).judge(device)


class LinkJudge:
    """Judges many devices by the same links: what a PF means for its functions is found once."""

    def __init__(self, snapshot: Snapshot, links: Links) -> None:
        self._snapshot = snapshot
        self._links = links
        self._uplinks: dict[str, tuple[Mapping[int, VfLinkPolicy], Health]] = {}

    def judge(self, device: Device) -> Health:
        """Unhealthy where the link that carries the device's traffic is known to be dead."""
        pf = _pf_of(device, self._snapshot)
        if pf is None:
            return own_link(self._links.newest(device.netdev))
        uplink = self._uplinks.get(pf)
        if uplink is None:
            uplink = self._uplinks[pf] = self._look_at(device)
        policies, verdict = uplink
        if policies and device.role is Role.VF and device.index is not None:
            policy = policies.get(device.index, VfLinkPolicy.AUTO)
            if policy is VfLinkPolicy.ENABLE:
                return HEALTHY
            if policy is VfLinkPolicy.DISABLE:
                return Health(Cause.LINK_DISABLED, "its link state is set to disable on the PF")
        return verdict

    def _look_at(self, device: Device) -> tuple[Mapping[int, VfLinkPolicy], Health]:
        """The policies of the VFs of a device's PF, and what its uplink means for the others."""
        uplink = self._snapshot.pf_netdev(device)
        fact = self._links.fact(uplink)
        return (fact.vf_policies or {}) if fact else {}, pf_link(self._links.newest(uplink))


def carriers(devices: Iterable[Device], snapshot: Snapshot) -> tuple[Netdev, ...]:
    """The netdevs by which these devices' links are judged, each once."""
    found: dict[str, Netdev | None] = {}
    for device in devices:
        pf = _pf_of(device, snapshot)
        key = device.id if pf is None else pf
        if key not in found:
            found[key] = device.netdev if pf is None else snapshot.pf_netdev(device)
    return tuple(netdev for netdev in found.values() if netdev is not None)


def _pf_of(device: Device, snapshot: Snapshot) -> str | None:
    """The PF on whose link a device hangs; None = on its own."""
    pf = device.pf_address
    return None if device.role is Role.PF or pf not in snapshot.pfs else pf


def own_link(netdev: Netdev | None) -> Health:
    """A function that stands for itself: its own carrier, while it is here and set up."""
    if netdev is None or netdev.admin_up is not True or has_carrier(netdev) is not False:
        return HEALTHY
    return Health(Cause.NO_CARRIER, f"{netdev.name} has no carrier")


def pf_link(netdev: Netdev | None) -> Health:
    """A function behind a PF: a PF that is down, or without carrier, takes its traffic with it."""
    if netdev is None:
        return HEALTHY
    if netdev.admin_up is False:
        return Health(Cause.PF_DOWN, f"PF {netdev.name} is administratively down")
    if has_carrier(netdev) is False:
        return Health(Cause.NO_CARRIER, f"PF {netdev.name} has no carrier")
    return HEALTHY


def has_carrier(netdev: Netdev) -> bool | None:
    """Carrier as told; from operstate where the carrier cannot be read; None = not known."""
    if netdev.carrier is not None:
        return netdev.carrier
    if netdev.operstate in _OPERSTATES_WITHOUT_CARRIER:
        return False
    return True if netdev.operstate == "up" else None

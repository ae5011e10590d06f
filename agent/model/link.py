"""Facts about interfaces from netlink. They are newer than any scan, and so override sysfs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import attrs

from agent.attrs_classes import frozen
from agent.model.device import Device, Netdev, Role
from agent.model.snapshot import Snapshot

DRIVERS_THAT_STOP_VFS: Mapping[str, str] = {
    "igb": "igb_reset() clears VFRE and VFTE when the PF is closed",
    "ixgbe": "ixgbe_down() disables all VFTE/VFRE, later ixgbe_set_all_vfs()",
    "ngbe": "ngbe_disable_device() calls wx_disable_vf_rx_tx()",
}
"""PF drivers that stop their VFs when the PF is set down -> the place in Linux.

Other drivers are not known to do so: i40e and ice keep the port's link unless
``link-down-on-close`` is set.
"""


class VfLinkPolicy(StrEnum):
    """IFLA_VF_LINK_STATE of a VF (uapi linux/if_link.h)."""

    AUTO = "auto"
    """The VF's link follows the PF's."""
    ENABLE = "enable"
    """The VF's link is up whatever the PF's carrier."""
    DISABLE = "disable"
    """The VF has no link."""


@frozen
class LinkFact:
    """The newest facts about an interface from netlink."""

    ifindex: int
    name: str
    admin_up: bool = False
    """IFF_UP."""
    carrier: bool | None = None
    operstate: str | None = None
    """Lower case, as sysfs spells it."""
    master: int | None = None
    """Ifindex of the bond, bridge or team that it is part of."""
    gone: bool = False
    """It left this network namespace."""
    vf_policies: Mapping[int, VfLinkPolicy] | None = None
    """VF index -> policy; None if the message did not contain it, as in every event."""
    altnames: tuple[str, ...] = ()
    """Alternative names, sorted."""


@frozen
class Links:
    """The facts from netlink since the start, by ifindex."""

    by_ifindex: Mapping[int, LinkFact] = attrs.field(factory=dict)
    by_number: bool = False
    """Whether the ifindex identifies an interface, because scans read the host of this kernel.

    Names may be swapped: after udev renamed two PFs, each has the other's name until the next scan.
    A laid-out tree of another host has ifindexes of its own, so there the name identifies.
    """

    def newest(self, netdev: Netdev | None) -> Netdev | None:
        """A scanned netdev with its newest state; None if it left this namespace."""
        fact = self.fact(netdev)
        if netdev is None or fact is None:
            return netdev
        if fact.gone:
            return None
        return attrs.evolve(
            netdev,
            name=fact.name,
            admin_up=fact.admin_up,
            carrier=fact.carrier,
            operstate=fact.operstate,
        )

    def fact(self, netdev: Netdev | None) -> LinkFact | None:
        """The facts about a netdev, found by its ifindex, or by its name if there are none.

        If the ifindex identifies interfaces, the name counts only if the scan read no ifindex.
        """
        if netdev is None:
            return None
        numbered = None if netdev.ifindex is None else self.by_ifindex.get(netdev.ifindex)
        if self.by_number and netdev.ifindex is not None:
            return numbered
        if numbered is not None and numbered.name == netdev.name:
            return numbered
        named = [f for f in self.by_ifindex.values() if f.name == netdev.name]
        here = next((f for f in named if not f.gone), None)
        return here or numbered or (named[-1] if named else None)

    def with_fact(self, fact: LinkFact) -> Links:
        """The same with newer facts about one interface; without VF policies, those stay."""
        before = self.by_ifindex.get(fact.ifindex)
        if before and fact.vf_policies is None:
            fact = attrs.evolve(fact, vf_policies=before.vf_policies)
        return Links({**self.by_ifindex, fact.ifindex: fact}, self.by_number)


def link_netdevs(devices: Iterable[Device], snapshot: Snapshot) -> Iterator[Netdev]:
    """The netdevs that decide on the links of these devices; some may be repeated.

    These are the netdevs of a device's PF, with the bond of a VF LAG, or its own if it is a PF or
    has no PF on this host. A VF's own netdev counts too if the PF's driver stops VFs: if it has
    carrier, the link is up nevertheless.
    """
    seen: set[str] = set()
    for device in devices:
        pf = snapshot.pf_of(device)
        if device.role is Role.PF or pf is None:
            yield from device.netdevs
            continue
        if device.role is Role.VF and pf.driver in DRIVERS_THAT_STOP_VFS:
            yield from device.netdevs
        if pf.id in seen:
            continue
        seen.add(pf.id)
        yield from pf.ports
        if bond := snapshot.lag_of.get(pf.id):
            yield bond

"""What netlink says of interfaces: newer than any scan, so it wins over what sysfs said."""

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
"""PF drivers that end the traffic of their VFs when the PF is set down -> where Linux does it.

Others are not known to: i40e and ice keep the port's link unless ``link-down-on-close`` is set.
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
    """Netlink's newest word about an interface."""

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
    """It left this network namespace: nothing is known of it any more."""
    vf_policies: Mapping[int, VfLinkPolicy] | None = None
    """VF index -> policy; None where the message did not tell, as in every event."""
    altnames: tuple[str, ...] = ()
    """Alternative names, sorted."""


@frozen
class Links:
    """What netlink said of interfaces since the start, by ifindex."""

    by_ifindex: Mapping[int, LinkFact] = attrs.field(factory=dict)
    by_number: bool = False
    """Whether scans read this kernel's own numbers: then an interface is known by its number alone.

    Names change hands: udev renames two PFs, and until the next scan each has the other's name. A
    laid-out tree that stands in for another machine has numbers of its own, so names count there.
    """

    def newest(self, netdev: Netdev | None) -> Netdev | None:
        """A scanned netdev brought up to date; None where it left this namespace."""
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
        """Netlink's word on a netdev: by ifindex, by name where there is none of that number.

        Where numbers are the kernel's own, a name counts only if the scan read no number.
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
        """The same with one interface's newest word; its VF policies stay if none are told."""
        before = self.by_ifindex.get(fact.ifindex)
        if before and fact.vf_policies is None:
            fact = attrs.evolve(fact, vf_policies=before.vf_policies)
        return Links({**self.by_ifindex, fact.ifindex: fact}, self.by_number)


def link_netdevs(devices: Iterable[Device], snapshot: Snapshot) -> Iterator[Netdev]:
    """The netdevs on which the links of these devices hang; some may come more than once.

    Those of a device's PF, with the bond of a VF LAG; its own where it is a PF or has no PF here.
    A VF's own netdev counts too where its PF's driver stops VFs, since its carrier proves that the
    link is there nevertheless.
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

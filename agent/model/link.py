"""What netlink says of interfaces: newer than any scan, so it beats what sysfs told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from agent.model.device import Netdev
from agent.records import frozen


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


@frozen
class Links:
    """What netlink said of interfaces since the start, by ifindex."""

    by_ifindex: Mapping[int, LinkFact] = attrs.field(factory=dict)

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
        """Netlink's word on a netdev: by ifindex, by name where there is none of that number."""
        if netdev is None:
            return None
        numbered = None if netdev.ifindex is None else self.by_ifindex.get(netdev.ifindex)
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
        return Links({**self.by_ifindex, fact.ifindex: fact})

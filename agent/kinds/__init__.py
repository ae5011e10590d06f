"""One file per device type: what belongs to it and what is written for it; read by the scan."""

from __future__ import annotations

from collections.abc import Mapping

from agent.kinds.accelerator import ACCELERATOR
from agent.kinds.aux_net_device import AUX_NET_DEVICE
from agent.kinds.kind import KindFacts
from agent.kinds.net_device import NET_DEVICE
from agent.model.device import Kind

__all__ = ["KINDS", "KindFacts", "kind_of_class"]

KINDS: Mapping[Kind, KindFacts] = {
    facts.kind: facts for facts in (NET_DEVICE, ACCELERATOR, AUX_NET_DEVICE)
}
"""Every device type, in the order in which documentation lists them."""

_OF_BASE_CLASS = {base: facts.kind for facts in KINDS.values() for base in facts.base_classes}


def kind_of_class(pci_class: int, *, has_rdma: bool = False) -> Kind | None:
    """The device type of a PCI function by its class code 0xCCSSPP; None = not ours.

    A function of another class is a network function if it owns an ``infiniband`` folder
    (``has_rdma``): some RDMA adapters call themselves co-processors.
    """
    kind = _OF_BASE_CLASS.get(pci_class >> 16)
    if kind is None and has_rdma:
        return Kind.NET_DEVICE
    return kind

"""The device types, one file for each: which devices are of the type, and what differs for it."""

from __future__ import annotations

from collections.abc import Mapping

from agent.kinds.accelerator import ACCELERATOR
from agent.kinds.aux_net_device import AUX_NET_DEVICE
from agent.kinds.kind import Kind
from agent.kinds.net_device import NET_DEVICE

__all__ = ["ACCELERATOR", "AUX_NET_DEVICE", "KINDS", "NET_DEVICE", "Kind", "kind_of_class"]

_TABLE = (
    NET_DEVICE,
    ACCELERATOR,
    AUX_NET_DEVICE,
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _TABLE}
"""Name -> device type, in the order in which documentation lists them."""

_OF_BASE_CLASS = {base: kind for kind in _TABLE for base in kind.base_classes}


def kind_of_class(pci_class: int, *, has_rdma: bool = False) -> Kind | None:
    """The device type of a PCI function by its class code 0xCCSSPP; None = none has that class.

    A function of another class is a network function if it owns an ``infiniband`` folder
    (``has_rdma``): the class of some RDMA adapters is that of a co-processor.
    """
    kind = _OF_BASE_CLASS.get(pci_class >> 16)
    if kind is None and has_rdma:
        return NET_DEVICE
    return kind

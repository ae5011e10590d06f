"""Every selector of the configuration, in the order in which a funnel applies them.

The order explains best: first what the hardware is, then where it sits, then the states that
people and pods change at run time. So the step that leaves nothing speaks of the right functions
("8 functions of pf0, none bound to vfio-pci"), and never of strangers that happen to share a
driver. The outcome is the same in every order, since all must hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.kinds import Kind
from agent.selectors.addresses import ACPI_INDEXES, PCI_ADDRESSES
from agent.selectors.aux_types import AUX_TYPES
from agent.selectors.classes import CLASSES
from agent.selectors.ddp_profiles import DDP_PROFILES
from agent.selectors.drivers import DRIVERS
from agent.selectors.hex_ids import DEVICES, VENDORS
from agent.selectors.link_types import LINK_TYPES
from agent.selectors.pf_functions import PF_NAMES, ROOT_DEVICES
from agent.selectors.pkeys import PKEYS
from agent.selectors.rdma import IS_RDMA
from agent.selectors.selector import Selector
from agent.selectors.vdpa import VDPA_TYPE
from agent.selectors.vhost_net import NEED_VHOST_NET

_WHAT_IT_IS = (VENDORS, DEVICES, CLASSES, AUX_TYPES)
_WHERE_IT_SITS = (PCI_ADDRESSES, ACPI_INDEXES, ROOT_DEVICES, PF_NAMES)
_WHAT_STATE_IT_IS_IN = (DRIVERS, LINK_TYPES, DDP_PROFILES, PKEYS, IS_RDMA, VDPA_TYPE)
_OPTIONS = (NEED_VHOST_NET,)

SELECTORS: Mapping[str, Selector] = {
    selector.key: selector
    for selector in (*_WHAT_IT_IS, *_WHERE_IT_SITS, *_WHAT_STATE_IT_IS_IN, *_OPTIONS)
}
"""Canonical key -> selector; validation, matching, documentation and tests derive from it."""


def required_selectors(kind: Kind | None) -> tuple[str, ...]:
    """Keys of the selectors that a selector object of a device type must have; None = unknown."""
    return tuple(key for key, s in SELECTORS.items() if s.is_required and kind in s.kinds)

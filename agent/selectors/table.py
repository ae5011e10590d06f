"""Every selector of the configuration, in the order in which a funnel applies them.

The result is the same in every order, since all selectors must hold. This order explains best: the
step that leaves nothing then counts the functions that were meant ("8 functions of pf0, none bound
to vfio-pci"), and not others that have the same driver.
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

_TABLE = (
    # What the hardware is.
    VENDORS,
    DEVICES,
    CLASSES,
    AUX_TYPES,
    # Where it is.
    PCI_ADDRESSES,
    ACPI_INDEXES,
    ROOT_DEVICES,
    PF_NAMES,
    # Its state, which people and pods change at run time.
    DRIVERS,
    LINK_TYPES,
    DDP_PROFILES,
    PKEYS,
    IS_RDMA,
    VDPA_TYPE,
    # Options, which select nothing.
    NEED_VHOST_NET,
)

SELECTORS: Mapping[str, Selector] = {selector.key: selector for selector in _TABLE}
"""Key -> selector; validation, matching, documentation and tests derive from it."""


def required_selectors(kind: Kind | None) -> tuple[str, ...]:
    """Keys of the selectors that a selector object of a device type must have; None = unknown."""
    return tuple(key for key, s in SELECTORS.items() if s.is_required and kind in s.kinds)

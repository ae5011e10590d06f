"""Functions that look broken: a kernel driver is bound, but its netdev is missing.

The netdev of a function that a pod holds is in the pod's network namespace. If no pod holds the
function, its netdev was lost, as happens when a pod ends while the driver hangs.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.model.device import Device, Role
from agent.pools.pool import Pools

_INFINIBAND_CLASS = 0x0207
_WITHOUT_NETDEV = frozenset({"pci-stub", "pciback", "xen-pciback"})
"""Drivers, besides those for VFIO and UIO, that make no netdev: they reserve a function."""


def lacks_its_netdev(device: Device) -> bool:
    """Whether a VF or sub-function has a kernel driver that creates a netdev, but has no netdev.

    InfiniBand functions and those with vDPA devices work without a netdev.
    """
    return (
        device.role is not Role.PF
        and device.kind.has_netdev
        and not device.netdevs
        and not device.vdpa
        and device.driver is not None
        and not _is_for_userspace(device)
        and device.pci_class >> 8 != _INFINIBAND_CLASS
    )


def _is_for_userspace(device: Device) -> bool:
    driver = device.driver or ""
    return device.is_vfio or bool(device.uio) or "uio" in driver or driver in _WITHOUT_NETDEV


def suspicion(device: Device, pools: Pools) -> str:
    """Why a device is allocated last, in one sentence; empty = it is not.

    If its PF's netdev is missing too, the agent does not see the host's network namespace, and
    nothing is known.
    """
    pf = pools.snapshot.pf_of(device)
    is_blind = pf is not None and pf.driver is not None and not pf.netdevs
    if is_blind or device.id in pools.held.holders or not lacks_its_netdev(device):
        return ""
    free = "no pod holds it" if pools.held.complete else "no pod is known to hold it"
    return (
        f"has the driver {device.driver} but no network interface, and {free}: "
        "it is allocated last; rebind its driver or reset it to restore the interface"
    )


def suspects(pools: Pools) -> Mapping[str, Mapping[str, str]]:
    """Resource -> id -> driver of the devices that look broken."""
    return {
        pool.resource: {
            m.device.id: m.device.driver or ""
            for m in pool.members
            if m.present and suspicion(m.device, pools)
        }
        for pool in pools.pools
    }

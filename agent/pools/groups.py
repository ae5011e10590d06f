"""IOMMU groups that several functions share: what vfio allows, and which pod has a group. Pure.

VFIO opens whole groups. One process can open a group at a time, and only while each endpoint in
it is bound to vfio, to pci-stub or to no driver (kernel: Documentation/driver-api/vfio.rst,
vfio_dev_viable() in drivers/vfio). Functions share a group where the PCI topology between them has
no ACS. Groups that vfio creates without an IOMMU have one function each and do not matter here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from agent.model.device import Device, OtherFunction, Role, is_vfio_driver
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Member, Pools

_PCI_BRIDGES = frozenset({0x0604, 0x0607})
"""PCI-PCI and CardBus bridges: they have another header type than endpoints."""
_HARMLESS_DRIVERS = frozenset({"pci-stub"})
_SHOWN = 4


def mates(device: Device, snapshot: Snapshot) -> Iterator[Device | OtherFunction]:
    """The other functions in the IOMMU group of a device that is bound to vfio."""
    if device.is_vfio and device.iommu_group is not None:
        yield from (
            function
            for function in snapshot.shared_groups.get(device.iommu_group, ())
            if _address(function) != device.pci_address
        )


def group_fault(device: Device, snapshot: Snapshot) -> str:
    """Why vfio does not open the device's IOMMU group; empty = it does."""
    blockers = [m for m in mates(device, snapshot) if _blocks(m)]
    if not blockers:
        return ""
    return (
        f"IOMMU group {device.iommu_group} is not viable: {_named(map(_bound, blockers))}; vfio "
        "opens a group only if every function in it is bound to vfio, pci-stub or no driver"
    )


def group_holder(device: Device, snapshot: Snapshot, held: AllocatedDevices) -> str:
    """Which function of a free device's group a pod holds; empty = none, or the device is held."""
    if device.id in held.holders:
        return ""
    for mate in mates(device, snapshot):
        if isinstance(mate, Device) and (holder := held.holders.get(mate.id)):
            return f"shares IOMMU group {device.iommu_group} with {mate.id}, held by {holder}"
    return ""


def with_held_mates(members: Iterable[Member], pools: Pools) -> frozenset[str]:
    """Ids of the members of whose IOMMU group a pod holds another function."""
    if not pools.held.holders or not pools.snapshot.shared_groups:
        return frozenset()
    return frozenset(
        m.device.id for m in members if group_holder(m.device, pools.snapshot, pools.held)
    )


def shared_groups(members: Collection[Member], snapshot: Snapshot) -> tuple[str, ...]:
    """One sentence on the IOMMU groups that members share with other functions; empty = none."""
    shared = snapshot.shared_groups
    own = {m.device.iommu_group for m in members if m.device.is_vfio} if shared else set()
    groups = {group: functions for group, functions in shared.items() if group in own}
    if not groups:
        return ()
    named = _named(f"{g} ({_named(map(_address, functions))})" for g, functions in groups.items())
    text = (
        f"functions share IOMMU groups: {named}; a pod that gets one gets the group, so the "
        'others are not allocated until it ends ("shareIommuGroup": true allocates them)'
    )
    return (text,)


def mates_text(device: Device, snapshot: Snapshot) -> str:
    """The other functions of a device's group as text; empty = there are none."""
    return _named(map(_address, mates(device, snapshot)))


def _blocks(function: Device | OtherFunction) -> bool:
    """Whether vfio refuses a group with this function in it."""
    if function.driver is None or function.driver in _HARMLESS_DRIVERS:
        return False
    if isinstance(function, Device):
        return not function.is_vfio
    return not is_vfio_driver(function.driver) and function.pci_class >> 8 not in _PCI_BRIDGES


def _address(function: Device | OtherFunction) -> str:
    return function.pci_address if isinstance(function, Device) else function.address


def _bound(function: Device | OtherFunction) -> str:
    what = "PF " if isinstance(function, Device) and function.role is Role.PF else ""
    return f"{what}{_address(function)} is bound to {function.driver}"


def _named(texts: Iterable[str]) -> str:
    """The first texts, then the number of the others."""
    every = list(dict.fromkeys(texts))
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

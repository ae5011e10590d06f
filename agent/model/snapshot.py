"""What one scan of the host saw, as one immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from agent.attrs_classes import frozen
from agent.kinds import NET_DEVICE
from agent.model.device import Device, Netdev, OtherFunction, Role
from agent.model.nodes import HostNodes

_WITHOUT_NETDEV = frozenset({"pci-stub"})
"""Drivers that make no netdev, beside those for VFIO and UIO."""
_INFINIBAND_CLASS = 0x0207


@frozen(slots=False)
class Snapshot:
    """Everything that one scan saw, sorted; two scans of an unchanged host are equal.

    Not slotted so that the look-up tables are made once, on first use.
    """

    devices: tuple[Device, ...] = ()
    """Every function and auxiliary device of a known kind, PFs with VFs too, in bus order."""
    default_route_netdevs: tuple[str, ...] = ()
    """Names of interfaces that a default route leaves by, sorted."""
    addressed_netdevs: tuple[str, ...] = ()
    """Netdevs of VFs and SFs that have a lasting address which is not link-local, sorted."""
    routed_netdevs: tuple[str, ...] = ()
    """Those of them by which a route leaves, sorted: the host uses them for traffic of its own."""
    masters: tuple[tuple[str, str], ...] = ()
    """(netdev of a VF or SF, the bond, bridge, team or OVS datapath that it is a port of), sorted.
    """
    netdev_parents: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(upper interface, the interfaces below it), sorted: which netdevs a bond or VLAN rests on."""
    bonds: tuple[Netdev, ...] = ()
    """Bonds that join several PFs of one switchdev eswitch (VF LAG), sorted by name."""
    skipped_classes: tuple[tuple[str, int], ...] = ()
    """(PCI class as ``0xCCSS``, how many functions of it were passed over), sorted."""
    passed_over: tuple[tuple[str, int], ...] = ()
    """(PCI address, class code 0xCCSSPP) of the functions of those classes, in bus order."""
    missing_rdma_modules: tuple[str, ...] = ()
    """Kernel modules whose absence leaves RDMA devices without some of their nodes, sorted."""
    nodes: HostNodes = HostNodes()
    """Which device nodes the host has."""

    group_mates: tuple[OtherFunction, ...] = ()
    """Functions of other classes in the IOMMU groups of devices that are bound to vfio."""

    unreadable: tuple[tuple[str, str], ...] = ()
    """(PCI address, attribute) of functions left out since they lack a required one, sorted."""

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """Devices by id."""
        return {device.id: device for device in self.devices}

    @cached_property
    def pfs(self) -> Mapping[str, Device]:
        """PFs by PCI address."""
        role = Role.PF
        return {d.id: d for d in self.devices if d.role is role}

    @cached_property
    def netdev_owner(self) -> Mapping[str, Device]:
        """The device that owns a netdev, by interface name; a function's own netdevs only."""
        return {n.name: d for d in self.devices for n in d.netdevs}

    @cached_property
    def _names_of_pfs(self) -> Mapping[str, tuple[str, ...]]:
        return {pf.id: (*pf.port_names, *pf.altnames) for pf in self.pfs.values()}

    @cached_property
    def altnames(self) -> frozenset[str]:
        """Alternative names of PFs, in lower case."""
        return frozenset(name.lower() for pf in self.pfs.values() for name in pf.altnames)

    def pf_names(self, device: Device) -> tuple[str, ...]:
        """Every name of a function's PF: of each of its ports, then the alternative ones.

        A PF whose netdev is not here has the name that the function remembers.
        """
        names = self._names_of_pfs.get(device.pf_address or "")
        return names or ((device.pf_name,) if device.pf_name else ())

    @cached_property
    def has_no_nic(self) -> bool:
        """Whether no NIC has its netdev in this network namespace: see :func:`lack_netdevs`."""
        return lack_netdevs(self.devices)

    @cached_property
    def lag_of(self) -> Mapping[str, Netdev]:
        """PF's id -> the bond that carries the traffic of its VFs and SFs, where it is a VF LAG."""
        return {
            pf.id: bond
            for bond in self.bonds
            for pf in vf_lags(self.pfs.values()).get(bond.name, ())
        }

    @cached_property
    def shared_groups(self) -> Mapping[int, tuple[Device | OtherFunction, ...]]:
        """IOMMU groups with a device bound to vfio and with more functions: what lies in each.

        Groups that vfio made up, without an IOMMU, are left out.
        """
        groups = [d.iommu_group for d in self.devices if d.iommu_group is not None]
        if not self.group_mates and len(set(groups)) == len(groups):
            return {}  # as on hosts with ACS, and there are thousands
        found: dict[int, list[Device | OtherFunction]] = {}
        vfio: set[int] = set()
        for device in self.devices:
            group = device.iommu_group
            if group is None or device.noiommu or device.pci_address != device.id:
                continue
            found.setdefault(group, []).append(device)
            if device.is_vfio:
                vfio.add(group)
        for other in self.group_mates:
            found.setdefault(other.iommu_group, []).append(other)
        return {g: tuple(found[g]) for g in found if g in vfio and len(found[g]) > 1}

    def pf_of(self, device: Device) -> Device | None:
        """The PF of a VF or SF (itself for a PF), if it is on this host."""
        return self.pfs.get(device.pf_address) if device.pf_address else None

    def pf_netdev(self, device: Device) -> Netdev | None:
        """The netdev of a device's PF that carries its traffic (the uplink), if it is here."""
        pf = self.pf_of(device)
        if pf is None:
            return None
        return next((n for n in pf.netdevs if n.name == pf.pf_name), pf.netdev)


def vf_lags(pfs: Iterable[Device]) -> Mapping[str, tuple[Device, ...]]:
    """Master interface -> the PFs of one eswitch that it joins, where there are several.

    Such PFs have the same ``phys_switch_id``; in a bond, the NIC sends the traffic of the VFs of
    each PF through the port of any (VF LAG; kernel, switchdev.rst and the drivers' pages).
    """
    joined: dict[str, dict[str, list[Device]]] = {}
    for pf in pfs:
        uplink = next((n for n in pf.netdevs if n.name == pf.pf_name), None)
        if uplink is not None and uplink.master is not None and uplink.phys_switch_id is not None:
            of_switch = joined.setdefault(uplink.master, {})
            of_switch.setdefault(uplink.phys_switch_id, []).append(pf)
    several = {
        master: tuple(pf for pfs in switches.values() if len(pfs) > 1 for pf in pfs)
        for master, switches in joined.items()
    }
    return {master: pfs for master, pfs in several.items() if pfs}


def lack_netdevs(devices: tuple[Device, ...]) -> bool:
    """Whether PFs are on kernel drivers, and no netdev of any function is in this namespace.

    That is what an agent sees that does not run in the host's network namespace. An InfiniBand PF
    has no netdev without IPoIB, so it says nothing.
    """
    is_expected = any(
        device.role is Role.PF
        and device.kind is NET_DEVICE
        and device.driver is not None
        and not device.is_vfio
        and "uio" not in device.driver
        and device.driver not in _WITHOUT_NETDEV
        and device.pci_class >> 8 != _INFINIBAND_CLASS
        for device in devices
    )
    return is_expected and not any(device.netdevs for device in devices)

"""A device, which a pool can have, and the facts that a scan read about it.

Absent facts are None or empty: a function without driver, without netdev, or with its netdev in a
pod's namespace is a normal state, never an error.
"""

from __future__ import annotations

from enum import StrEnum

from agent.attrs_classes import fast_record
from agent.kinds import Kind


class Role(StrEnum):
    """What a function is to SR-IOV."""

    PF = "PF"
    """A PCI function that is not a VF, with or without the SR-IOV capability."""
    VF = "VF"
    """A PCI function with a ``physfn`` link."""
    SF = "SF"
    """An auxiliary device of kind ``sf``."""
    AUX = "AUX"
    """An auxiliary device of another kind below a network function."""


UIO_DRIVERS = frozenset({"uio", "igb_uio", "uio_pci_generic"})
"""Drivers that hand functions to userspace by UIO."""


def is_vfio_driver(driver: str | None) -> bool:
    """Whether a driver is known by its name to hand functions to userspace by vfio.

    ``vfio-pci`` and its variants (``mlx5_vfio_pci``, ``hisi_acc_vfio_pci``, ``pds_vfio_pci`` ...)
    have ``vfio`` in their names. Other drivers show by the VFIO device that they make.
    """
    return driver is not None and "vfio" in driver


@fast_record
class Netdev:
    """A network interface of a function (kernel ABI documentation, sysfs-class-net)."""

    name: str
    ifindex: int | None = None
    link_type: str | None = None
    """``ether`` (ARPHRD 1), ``infiniband`` (ARPHRD 32), another ARPHRD number as text, or None."""
    admin_up: bool | None = None
    """IFF_UP of ``flags``."""
    carrier: bool | None = None
    """None where it cannot be read: the kernel answers EINVAL while the netdev is down."""
    operstate: str | None = None
    speed_mbps: int | None = None
    phys_switch_id: str | None = None
    phys_port_name: str | None = None
    uppers: tuple[str, ...] = ()
    """Interfaces stacked on this one (bond, bridge, team, OVS, VLAN ...), sorted."""
    master: str | None = None
    """The bond, bridge, team or OVS datapath that this interface is enslaved to."""
    dev_port: int | None = None
    """Port of the function's RDMA device, from 0; read for IPoIB netdevs only."""
    altnames: tuple[str, ...] = ()
    """Alternative names (``ip link property add``), sorted; asked for PFs only."""


@fast_record
class RdmaDevice:
    """An RDMA device of a function, with its character devices as container paths, sorted."""

    name: str
    uverbs: tuple[str, ...] = ()
    umad: tuple[str, ...] = ()
    issm: tuple[str, ...] = ()
    ucm: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """All character devices that belong to this RDMA device alone."""
        return (*self.issm, *self.umad, *self.uverbs, *self.ucm)


@fast_record
class InfinibandPort:
    """A port of an RDMA device whose link layer is InfiniBand (kernel ABI sysfs-class-infiniband).

    The port's state is the link: no IPoIB netdev is needed for RDMA, and it may be down.
    """

    rdma: str
    """Name of the RDMA device."""
    number: int
    """From 1."""
    state: str | None = None
    """``DOWN``, ``INIT``, ``ARMED``, ``ACTIVE`` or ``ACTIVE_DEFER``; None = it cannot be read."""
    phys_state: str | None = None
    """``LinkUp``, ``Polling``, ``Disabled`` ...; None = it cannot be read."""


@fast_record
class VdpaDevice:
    """A vDPA device of a function (``bus/vdpa/devices``)."""

    name: str
    type: str | None
    """``vhost`` (driver vhost_vdpa), ``virtio`` (driver virtio_vdpa), None where unbound."""
    char_device: str | None = None
    """Host path of the vhost character device, for example ``/dev/vhost-vdpa-0``."""


@fast_record
class OtherFunction:
    """A PCI function that is no device here, with what an IOMMU group needs to know of it."""

    address: str
    pci_class: int
    """0xCCSSPP."""
    driver: str | None
    iommu_group: int


@fast_record
class Device:
    """One function or auxiliary device, with every fact used by anything above."""

    id: str
    """PCI address in normal form, or the auxiliary device's name: what kubelet knows it by."""
    kind: Kind
    role: Role
    pci_address: str
    """Its own PCI address; for an auxiliary device its parent function's."""
    vendor: str
    """Four lower-case hex digits (the parent's for an auxiliary device)."""
    device: str
    """Four lower-case hex digits (the parent's for an auxiliary device)."""
    pci_class: int
    """0xCCSSPP: base class, subclass, programming interface."""
    driver: str | None = None
    """Bound driver; None = unbound."""
    numa_node: int | None = None
    """None where the host tells none (-1 or no file): then no topology is ever sent."""
    pf_address: str | None = None
    """PCI address of its PF (its own for a PF); the PF itself may not be on this host."""
    pf_name: str | None = None
    """Netdev of its PF: the uplink in switchdev mode. None where the PF has no netdev here."""
    index: int | None = None
    """VF index (N of the PF's ``virtfnN``) or an SF's ``sfnum``; None for a PF."""
    total_vfs: int = 0
    """``sriov_totalvfs``; 0 = not SR-IOV capable."""
    num_vfs: int = 0
    """``sriov_numvfs``; above 0 = a PF with VFs, which is never allocated itself."""
    netdevs: tuple[Netdev, ...] = ()
    """Its own netdevs, sorted by name; a PF's representors are not among them."""
    iommu_group: int | None = None
    noiommu: bool = False
    """The group's name is ``vfio-noiommu``: its host node is /dev/vfio/noiommu-<group>."""
    uio: tuple[str, ...] = ()
    """Entries of its ``uio/`` folder, sorted."""
    acpi_index: str | None = None
    rdma: tuple[RdmaDevice, ...] = ()
    rdma_enabled: bool | None = None
    """devlink's ``enable_rdma``, where it could be asked; tells while RDMA devices are in a pod."""
    pkey: int | None = None
    """P_Key at index 0 of port 1 of its first RDMA device."""
    vdpa: tuple[VdpaDevice, ...] = ()
    ddp_profile: str | None = None
    """devlink info ``fw.app.name`` of the function or else of its PF."""
    aux_type: str | None = None
    """Middle part of an auxiliary device's name, ``sf`` for sub-functions."""
    representor: str | None = None
    """Netdev of its representor, where the eswitch is in switchdev mode."""
    infiniband_ports: tuple[InfinibandPort, ...] = ()
    """InfiniBand ports of a PF, and of a VF whose PF is not on this host; in their order."""
    vfio_device: str | None = None
    """The VFIO device that its driver made of it, for example ``vfio7`` (since Linux 6.1)."""

    @property
    def is_vfio(self) -> bool:
        """Whether its driver hands it to userspace by vfio, whatever the driver's name."""
        return self.vfio_device is not None or is_vfio_driver(self.driver)

    @property
    def netdev(self) -> Netdev | None:
        """Its first netdev, if any is in this network namespace."""
        return self.netdevs[0] if self.netdevs else None

    @property
    def ports(self) -> tuple[Netdev, ...]:
        """Its netdevs that are ports with a link of their own, the one that names the PF first.

        One PCI function may have several ports (nfp, mlx4). Where the driver names the physical
        ports (``phys_port_name``), netdevs without such a name are none.
        """
        if len(self.netdevs) < 2:
            return self.netdevs
        first = [n for n in self.netdevs if n.name == self.pf_name]
        ports = [*first, *(n for n in self.netdevs if n.name != self.pf_name)]
        if first and first[0].phys_port_name is not None:
            ports = [n for n in ports if n.phys_port_name is not None]
        return tuple(ports)

    @property
    def port_names(self) -> tuple[str, ...]:
        """Names of its ports' netdevs, that which names the PF first."""
        return tuple(n.name for n in self.ports)

    @property
    def altnames(self) -> tuple[str, ...]:
        """Alternative names of its ports' netdevs, as far as they were asked for."""
        return tuple(name for n in self.ports for name in n.altnames)

    @property
    def is_rdma(self) -> bool:
        """Whether it offers RDMA: it has an RDMA device here, or devlink says it may."""
        return bool(self.rdma) or self.rdma_enabled is True

    @property
    def has_vfs(self) -> bool:
        """Whether it is a PF whose VFs exist: such a function is never allocated itself."""
        return self.num_vfs > 0 and self.role is Role.PF

    @property
    def lacks_driver(self) -> bool:
        """Whether no driver serves it, so that no pod could use it as it is.

        Only a driver makes netdevs, RDMA and vDPA devices: an auxiliary device that has any is
        served, whatever its ``driver`` link says.
        """
        if self.driver is not None:
            return False
        is_auxiliary = not self.kind.on_pci
        return not (is_auxiliary and (self.netdevs or self.rdma or self.vdpa))

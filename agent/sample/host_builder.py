"""Lays out a host tree as the kernel would show it: for the demo, replays and tests.

Real folders below ``sys/devices``, with the links that buses and classes have. Attributes end in a
newline as in sysfs; device nodes are plain files. Its methods read like the host's own events: VFs
appear, a carrier goes.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from agent.attrs_classes import frozen
from agent.model.address import bdf_order
from agent.model.device import RdmaDevice, is_vfio_driver
from agent.roots import Roots
from agent.sample.hardware import ACC100, E810, VIRTIO_NET, Hardware, VfHardware

_IFF_UP = 0x1
_IFF_BROADCAST_MULTICAST = 0x1002
_LINK_TYPES = {"ether": 1, "infiniband": 32}
_VFS_PER_FUNCTION = 0x100
_FIRST_VF_OFFSET = 8
_VDPA_DRIVERS = {"vhost": "vhost_vdpa", "virtio": "virtio_vdpa", None: None}


@frozen
class Port:
    """A netdev's place in an eswitch in switchdev mode."""

    name: str
    """``phys_port_name``."""
    switch_id: str
    """``phys_switch_id``."""


class HostBuilder:
    """A host below ``root``, laid out function by function and changed as hosts change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._numbers: Counter[str] = Counter()
        self._plain: set[str] = set()
        for folder in ("sys/bus/pci/devices", "sys/class/net", "sys/devices", "dev", "proc/net"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    @property
    def roots(self) -> Roots:
        """The roots of this host."""
        return Roots(host=self.root)

    def folder(self, owner: str) -> Path:
        """The folder of a PCI function, or of an auxiliary device by its name."""
        if owner.count(".") > 1:
            return (self.root / "sys/bus/auxiliary/devices" / owner).resolve()
        domain, bus, _ = owner.split(":")
        return self.root / f"sys/devices/pci{domain}:{bus}" / owner

    # Functions

    def function(
        self, bdf: str, hardware: Hardware = E810, *, numa: int | None = 0, iommu: bool = True
    ) -> str:
        """A PCI function with its ids, driver and IOMMU group, and nothing else; its address."""
        folder = self.folder(bdf)
        self.write(folder / "vendor", f"0x{hardware.vendor}")
        self.write(folder / "device", f"0x{hardware.device}")
        self.write(folder / "numa_node", -1 if numa is None else numa)
        self.write(folder / "class", f"0x{hardware.pci_class:06x}")
        if iommu:
            self.iommu_group(bdf)
        if hardware.driver is not None:
            self.set_driver(bdf, hardware.driver)
        self.link(self.root / "sys/bus/pci/devices" / bdf, folder)
        return bdf

    def pf(
        self,
        bdf: str,
        netdev: str | None = None,
        hardware: Hardware = E810,
        *,
        vfs: int = 0,
        numa: int | None = 0,
    ) -> str:
        """A PF with its netdev and VFs."""
        self.function(bdf, hardware, numa=numa)
        if hardware.total_vfs:
            self.write(self.folder(bdf) / "sriov_totalvfs", hardware.total_vfs)
            self.write(self.folder(bdf) / "sriov_numvfs", 0)
        if netdev is not None:
            self.netdev(netdev, bdf, link_type=hardware.link_type)
        if vfs:
            self.add_vfs(bdf, vfs, hardware.vf)
        return bdf

    def accelerator(
        self, bdf: str, hardware: Hardware = ACC100, *, vfs: int = 0, numa: int | None = 0
    ) -> str:
        """An accelerator's PF with its VFs."""
        return self.pf(bdf, None, hardware, vfs=vfs, numa=numa)

    def virtio_nic(self, bdf: str, netdev: str, *, numa: int | None = None) -> str:
        """A virtio NIC as cloud machines have it: its netdev belongs to the virtio device."""
        self.function(bdf, VIRTIO_NET, numa=numa, iommu=False)
        folder = self.folder(bdf) / f"virtio{self._next('virtio')}"
        self.link(self.root / "sys/bus/virtio/devices" / folder.name, folder)
        self._netdev(netdev, folder)
        return bdf

    @staticmethod
    def vf_address(pf: str, index: int) -> str:
        """Where the builder puts a VF: behind its PF, 256 routing ids for each function."""
        domain, bus, device, function = bdf_order(pf)
        first = (bus << 8 | device << 3) + _FIRST_VF_OFFSET + function * _VFS_PER_FUNCTION
        routing = first + index
        return f"{domain:04x}:{routing >> 8:02x}:{routing >> 3 & 0x1F:02x}.{routing & 7}"

    def vfs(self, pf: str) -> tuple[str, ...]:
        """The addresses of a PF's VFs by index."""
        links = self.folder(pf).glob("virtfn*")
        by_index = sorted(links, key=lambda link: int(link.name.removeprefix("virtfn")))
        return tuple(link.readlink().name for link in by_index)

    def add_vfs(self, pf: str, count: int, vf: VfHardware = E810.vf) -> tuple[str, ...]:
        """Make VFs up to ``count``, as writing to ``sriov_numvfs`` does; addresses by index."""
        folder = self.folder(pf)
        vendor = (folder / "vendor").read_text().strip().removeprefix("0x")
        pci_class = int((folder / "class").read_text(), 16)
        numa = int((folder / "numa_node").read_text())
        netdev = next(iter(self.netdevs(pf)), None)
        for index in range(len(self.vfs(pf)), count):
            bdf = self.vf_address(pf, index)
            self.link(self.folder(bdf) / "physfn", folder)
            hardware = Hardware(vendor, vf.device, vf.driver, pci_class)
            self.function(bdf, hardware, numa=numa, iommu=vf.iommu)
            self.link(folder / f"virtfn{index}", self.folder(bdf))
            if vf.netdevs and netdev is not None:
                self.netdev(f"{netdev}v{index}", bdf, link_type=hardware.link_type, up=False)
        self.write(folder / "sriov_numvfs", count)
        return self.vfs(pf)

    def remove_vfs(self, pf: str) -> None:
        """Take all VFs of a PF away, as writing 0 to ``sriov_numvfs`` does."""
        for index, bdf in enumerate(self.vfs(pf)):
            (self.folder(pf) / f"virtfn{index}").unlink()
            self.remove(bdf)
        self.write(self.folder(pf) / "sriov_numvfs", 0)

    def remove(self, bdf: str) -> None:
        """Unplug a function with everything below it, netdevs first as drivers do."""
        for netdev in self.netdevs(bdf):
            self.remove_netdev(netdev)
        self._hide_group(self.folder(bdf))
        (self.root / "sys/bus/pci/devices" / bdf).unlink()
        shutil.rmtree(self.folder(bdf))

    def set_driver(self, owner: str, driver: str | None) -> None:
        """Bind a function to another driver, or to none."""
        self._hide_group(self.folder(owner))
        self._bind(self.folder(owner), "pci", driver)
        self._show_group(self.folder(owner))

    def iommu_group(self, bdf: str, *, noiommu: bool = False) -> int:
        """Give a function an IOMMU group of its own, with its node below /dev/vfio; its number."""
        group = self._next("group")
        folder = self.root / f"sys/kernel/iommu_groups/{group}"
        self.link(folder / "devices" / bdf, self.folder(bdf))
        self._hide_group(self.folder(bdf))
        (self.folder(bdf) / "iommu_group").unlink(missing_ok=True)
        self.link(self.folder(bdf) / "iommu_group", folder)
        if noiommu:
            self.write(folder / "name", "vfio-noiommu")
        self.node(f"vfio/noiommu-{group}" if noiommu else f"vfio/{group}")
        self.node("vfio/vfio")
        self._show_group(self.folder(bdf))
        return group

    def uio(self, bdf: str) -> str:
        """Give a function a userspace I/O device; its name."""
        name = f"uio{self._next('uio')}"
        (self.folder(bdf) / "uio" / name).mkdir(parents=True)
        self.node(name)
        return name

    # Network interfaces

    def netdev(
        self,
        name: str,
        owner: str | None = None,
        *,
        link_type: str = "ether",
        up: bool = True,
        port: Port | None = None,
    ) -> None:
        """A netdev of a function or auxiliary device, or of none; a PF's representors too."""
        above = self.folder(owner) if owner else self.root / "sys/devices/virtual"
        self._netdev(name, above, link_type=link_type, up=up, port=port)

    def netdevs(self, owner: str) -> tuple[str, ...]:
        """The names of an owner's netdevs in the order in which they were made."""
        above = self.folder(owner)
        folders = (*above.glob("net/*"), *above.glob("virtio*/net/*"))
        by_index = sorted(folders, key=lambda folder: int((folder / "ifindex").read_text()))
        return tuple(folder.name for folder in by_index)

    def remove_netdev(self, name: str) -> None:
        """Take a netdev away: unregistered, or moved to another network namespace."""
        link = self.root / "sys/class/net" / name
        folder = link.resolve()
        link.unlink()
        shutil.rmtree(folder)

    def set_admin(self, name: str, *, up: bool) -> None:
        """``ip link set NAME up|down``; the carrier of a netdev that is down cannot be read."""
        folder = self.root / "sys/class/net" / name
        flags = _IFF_BROADCAST_MULTICAST | (_IFF_UP if up else 0)
        self.write(folder / "flags", f"{flags:#x}")
        (folder / "carrier").unlink(missing_ok=True)
        self.write(folder / "operstate", "down")
        if up:
            self.set_carrier(name, up=True)

    def set_carrier(self, name: str, *, up: bool) -> None:
        """Plug or pull the cable."""
        folder = self.root / "sys/class/net" / name
        self.write(folder / "speed", 25000 if up else -1)
        self.write(folder / "operstate", "up" if up else "down")
        self.write(folder / "carrier", int(up))

    def enslave(self, lower: str, upper: str) -> None:
        """Put a netdev into a bond, bridge or team, which is made if it is not there."""
        self.stack(lower, upper)
        net = self.root / "sys/class/net"
        self.link(net / lower / "master", (net / upper).resolve())

    def stack(self, lower: str, upper: str) -> None:
        """Put a VLAN or another upper interface on a netdev; it is made if it is not there."""
        net = self.root / "sys/class/net"
        if not (net / upper).exists():
            self.netdev(upper)
        self.link(net / lower / f"upper_{upper}", (net / upper).resolve())
        self.link(net / upper / f"lower_{lower}", (net / lower).resolve())

    def default_route(self, netdev: str) -> None:
        """An IPv4 default route in procfs."""
        table = self.root / "proc/net/route"
        if not table.exists():
            self.write(table, "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Win IRTT")
        fields = (netdev, "00000000", "0100000A", "0003", "0", "0", "0", "00000000", "0", "0", "0")
        self.write(table, table.read_text() + "\t".join(fields))

    # RDMA, vDPA, sub-functions

    def rdma(self, owner: str, name: str, *, pkey: int = 0xFFFF, umad: bool = True) -> RdmaDevice:
        """An RDMA device of a function or auxiliary device, with its character devices."""
        number = self._next("rdma")
        folder = self.folder(owner) / "infiniband" / name
        self.write(folder / "ports/1/pkeys/0", f"{pkey:#06x}")
        pci_class = self.folder(owner) / "class"
        is_infiniband = pci_class.exists() and pci_class.read_text().startswith("0x0207")
        self.write(folder / "ports/1/link_layer", "InfiniBand" if is_infiniband else "Ethernet")
        self.set_rdma_port(owner, name)
        self.link(self.root / "sys/class/infiniband" / name, folder)
        classes = {"uverbs": "infiniband_verbs"}
        if umad:
            classes |= {"umad": "infiniband_mad", "issm": "infiniband_mad"}
        for prefix, class_name in classes.items():
            node = f"{prefix}{number}"
            self.write(self.root / f"sys/class/{class_name}/{node}/ibdev", name)
            self.node(f"infiniband/{node}")
        self.node("infiniband/rdma_cm")
        return RdmaDevice(
            name,
            uverbs=(f"/dev/infiniband/uverbs{number}",),
            umad=(f"/dev/infiniband/umad{number}",) if umad else (),
            issm=(f"/dev/infiniband/issm{number}",) if umad else (),
        )

    def set_rdma_port(
        self, owner: str, name: str, state: str = "4: ACTIVE", phys_state: str = "5: LinkUp"
    ) -> None:
        """The state of port 1 of an RDMA device, as sysfs writes it."""
        port = self.folder(owner) / "infiniband" / name / "ports/1"
        self.write(port / "state", state)
        self.write(port / "phys_state", phys_state)

    def vdpa(self, owner: str, vdpa_type: str | None = "vhost") -> str:
        """A vDPA device of a function or auxiliary device; its name."""
        number = self._next("vdpa")
        name = f"vdpa{number}"
        folder = self.folder(owner) / name
        folder.mkdir()
        self._bind(folder, "vdpa", _VDPA_DRIVERS[vdpa_type])
        if vdpa_type == "vhost":
            (folder / f"vhost-vdpa-{number}").mkdir()
            self.node(f"vhost-vdpa-{number}")
        self.link(self.root / "sys/bus/vdpa/devices" / name, folder)
        return name

    def auxiliary(self, parent: str, name: str, *, driver: str | None = None) -> str:
        """An auxiliary device ``<driver>.<type>.<id>`` of a function; its name."""
        folder = self.folder(parent) / name
        folder.mkdir()
        self.link(self.root / "sys/bus/auxiliary/devices" / name, folder)
        self._bind(folder, "auxiliary", driver)
        return name

    def sf(self, parent: str, sfnum: int, netdev: str | None = None) -> str:
        """An mlx5 sub-function of a PF, with its netdev; its name."""
        number = self._next("sf") + 2  # 0 and 1 are the ports' own auxiliary devices
        name = self.auxiliary(parent, f"mlx5_core.sf.{number}", driver="mlx5_core.sf")
        self.write(self.folder(name) / "sfnum", sfnum)
        if netdev is not None:
            self.netdev(netdev, name)
        return name

    # Files

    def write(self, path: Path, content: str | int) -> None:
        """Write an attribute, with the newline that sysfs has."""
        _in_its_folder(path, lambda: path.write_text(f"{content}\n"))

    def link(self, path: Path, target: Path) -> None:
        """Make a relative link, as sysfs has them."""
        _in_its_folder(path, lambda: path.symlink_to(self._relative(path.parent, target)))

    def node(self, name: str) -> None:
        """Make a device node, as a plain file."""
        path = self.root / "dev" / name
        _in_its_folder(path, path.touch)

    def _relative(self, folder: Path, target: Path) -> str:
        """The way from a folder to a target; of most folders it is known that none is a link."""
        place = str(folder)
        if place not in self._plain:
            real = os.path.realpath(folder, strict=True)
            if real != place:
                return os.path.relpath(target, real)
            self._plain.add(place)
        return os.path.relpath(target, place)

    def _bind(self, folder: Path, bus: str, driver: str | None) -> None:
        link = folder / "driver"
        link.unlink(missing_ok=True)
        if driver is not None:
            target = self.root / f"sys/bus/{bus}/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            self.link(link, target)

    def _show_group(self, function: Path) -> None:
        """Make the class device that vfio has for the group of a function bound to it."""
        if (name := _vfio_group(function)) is not None:
            shown = self.root / "sys/devices/virtual/vfio" / name
            shown.mkdir(parents=True, exist_ok=True)
            self.link(self.root / "sys/class/vfio" / name, shown)

    def _hide_group(self, function: Path) -> None:
        if (name := _vfio_group(function)) is not None:
            (self.root / "sys/class/vfio" / name).unlink(missing_ok=True)

    def _next(self, counted: str) -> int:
        number = self._numbers[counted]
        self._numbers[counted] += 1
        return number

    def _netdev(
        self,
        name: str,
        above: Path,
        *,
        link_type: str = "ether",
        up: bool = True,
        port: Port | None = None,
    ) -> None:
        folder = above / "net" / name
        self.write(folder / "ifindex", self._next("ifindex") + 1)
        self.write(folder / "type", _LINK_TYPES[link_type])
        if port is not None:
            self.write(folder / "phys_port_name", port.name)
            self.write(folder / "phys_switch_id", port.switch_id)
        self.link(self.root / "sys/class/net" / name, folder)
        self.set_admin(name, up=up)


def _vfio_group(function: Path) -> str | None:
    """What vfio calls the group of a function (drivers/vfio/group.c), if it is bound to vfio."""
    driver, group = function / "driver", function / "iommu_group"
    if not driver.is_symlink() or not group.is_symlink():
        return None
    if not is_vfio_driver(driver.readlink().name):
        return None
    return f"{'noiommu-' if (group / 'name').exists() else ''}{group.readlink().name}"


def _in_its_folder(path: Path, make: Callable[[], object]) -> None:
    """Make a file, and the folder first if it is not there."""
    try:
        make()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        make()

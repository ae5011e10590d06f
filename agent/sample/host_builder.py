"""Lays out a host tree as the kernel would show it, for the demo.

Real folders below ``sys/devices``, with the links that buses and classes have. Attributes end in a
newline as in sysfs; device nodes are plain files. Its methods read like the host's own events: VFs
appear, a carrier goes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from agent.attrs_classes import frozen
from agent.model.address import bdf_order
from agent.model.device import is_vfio_driver
from agent.roots import Roots
from agent.sample.hardware import E810, Hardware, VfHardware

_IFF_UP = 0x1
_IFF_BROADCAST_MULTICAST = 0x1002
_LINK_TYPES = {"ether": 1, "infiniband": 32}
_VFS_PER_FUNCTION = 0x100
_FIRST_VF_OFFSET = 8


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

    def default_route(self, netdev: str) -> None:
        """An IPv4 default route in procfs."""
        table = self.root / "proc/net/route"
        if not table.exists():
            self.write(table, "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Win IRTT")
        fields = (netdev, "00000000", "0100000A", "0003", "0", "0", "0", "00000000", "0", "0", "0")
        self.write(table, table.read_text() + "\t".join(fields))

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

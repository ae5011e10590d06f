"""A laid-out host of tests: what hosts of every kind have, and how they change."""

from __future__ import annotations

import shutil

from agent.model.device import RdmaDevice
from agent.sample import host_builder
from agent.sample.hardware import Hardware
from tests.support.hardware import ACC100, VIRTIO_NET

Port = host_builder.Port
_VDPA_DRIVERS = {"vhost": "vhost_vdpa", "virtio": "virtio_vdpa", None: None}


class HostBuilder(host_builder.HostBuilder):
    """The demo's host with accelerators, bonds, RDMA, vDPA, sub-functions, and what goes away."""

    # Functions

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

    def uio(self, bdf: str) -> str:
        """Give a function a userspace I/O device; its name."""
        name = f"uio{self._next('uio')}"
        (self.folder(bdf) / "uio" / name).mkdir(parents=True)
        self.node(name)
        return name

    # Network interfaces

    def remove_netdev(self, name: str) -> None:
        """Take a netdev away: unregistered, or moved to another network namespace."""
        link = self.root / "sys/class/net" / name
        folder = link.resolve()
        link.unlink()
        shutil.rmtree(folder)

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

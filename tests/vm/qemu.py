"""The command line of a virtual machine: two NUMA nodes, an IOMMU, and SR-IOV NICs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from .wiring import NIC_NODES, QMP_PORT, REPORTS_PORT, VIRTIO_VFS, nic, virtio_nic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .debian import Packages

# On a busy host the kernel may find too few ticks in its trial of the timer, and panic.
_KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 intel_iommu=on iommu.strict=1 no_timer_check"


@attrs.frozen
class Machine:
    """What is plugged together, beside the NICs."""

    memory_mib: int = 1024
    cpus: int = 2
    qemu: Path | None = None
    """The tree of another QEMU than the packages'."""
    virtio_nic: bool = False
    """Whether there is a virtio NIC with VFs too, which takes a newer QEMU."""
    modules: tuple[str, ...] = ()
    """What is loaded at boot besides what every guest needs."""
    built: Path | None = None
    """The folder of modules that are not the packages'."""


@attrs.frozen
class Channels:
    """Open file descriptors that QEMU inherits, each one end of a pair of sockets."""

    qmp_monitor: int
    qmp_guest: int
    reports: int


def command(
    packages: Packages, initramfs: Path, results: Path, machine: Machine, channels: Channels
) -> list[str]:
    """The words that start QEMU, with the loader and libraries it was built with."""
    tree = machine.qemu or packages.tree
    libraries = tree / "usr/lib/x86_64-linux-gnu", tree / "lib/x86_64-linux-gnu"
    firmware = tree / "usr/share/qemu", tree / "usr/share/seabios", tree / "usr/lib/ipxe/qemu"
    return [
        next(str(path) for folder in libraries for path in folder.glob("ld-linux-x86-64.so.2")),
        "--library-path",
        ":".join(map(str, libraries)),
        str(tree / "usr/bin/qemu-system-x86_64"),
        *(word for folder in firmware for word in ("-L", str(folder))),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-serial", "stdio"),
        *("-kernel", str(packages.image), "-initrd", str(initramfs)),
        *("-append", _KERNEL_ARGUMENTS),
        *_board(machine),
        *_nics(),
        *(_virtio_nic() if machine.virtio_nic else ()),
        *_shares(results),
        *_ports(channels),
    ]


def _board(machine: Machine) -> Iterator[str]:
    # The emulated processor, everywhere: where KVM is there it may not be able to start a guest.
    yield from ("-machine", "q35,kernel-irqchip=off", "-accel", "tcg,thread=multi", "-cpu", "max")
    yield from ("-smp", str(machine.cpus), "-m", f"{machine.memory_mib}M")
    for node in (0, 1):
        half = f"{machine.memory_mib // 2}M"
        yield from ("-object", f"memory-backend-ram,id=memory{node},size={half}")
        yield from ("-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}")
    yield from ("-device", "intel-iommu,intremap=on,caching-mode=on")


def _nics() -> Iterator[str]:
    for node, bus in ((0, 0x40), (1, 0x80)):
        bridge = f"pxb-pcie,id=bridge{node},bus=pcie.0,bus_nr={bus},numa_node={node}"
        yield from ("-device", bridge)
    for i, node in enumerate(NIC_NODES):
        slot = f"pcie-root-port,id=port{i},bus=bridge{node},chassis={i + 1},slot={i + 1},addr={i}.0"
        yield from ("-device", slot)
        yield from ("-netdev", f"hubport,id=net{i},hubid={i}")
        yield from ("-device", ",".join(f"{key}={value}" for key, value in nic(i).items()))


def _virtio_nic() -> Iterator[str]:
    """A PF and its VFs, each with a link of its own to one hub; QEMU wants the VFs first."""
    yield from ("-device", "pcie-root-port,id=portv,bus=bridge1,chassis=9,slot=9,addr=9.0")
    for function in (*range(1, VIRTIO_VFS + 1), 0):
        yield from ("-netdev", f"hubport,id=netv{function},hubid=9")
        yield from ("-device", ",".join(f"{k}={v}" for k, v in virtio_nic(function).items()))


def _shares(results: Path) -> Iterator[str]:
    for tag, folder, access in (("host", Path("/"), "on"), ("results", results, "off")):
        path = str(folder).replace(",", ",,")  # QEMU's spelling of a comma in a value
        limits = f"readonly={access},security_model=none,multidevs=remap"
        yield from ("-fsdev", f"local,id={tag},path={path},{limits}")
        yield from ("-device", f"virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}")


def _ports(channels: Channels) -> Iterator[str]:
    """A monitor that the guest talks to, and a way out for its test reports."""
    yield from ("-device", "virtio-serial-pci,bus=pcie.0")
    yield from ("-chardev", f"socket,id=monitor,fd={channels.qmp_monitor}")
    yield from ("-mon", "chardev=monitor,mode=control")
    yield from ("-chardev", f"socket,id=qmp,fd={channels.qmp_guest}")
    yield from ("-device", f"virtserialport,chardev=qmp,name={QMP_PORT}")
    yield from ("-chardev", f"socket,id=reports,fd={channels.reports}")
    yield from ("-device", f"virtserialport,chardev=reports,name={REPORTS_PORT}")

"""The guest's hardware for its tests: what is plugged, and hands to change it.

All is done through the kernel's own interfaces or the machine's monitor, as an operator or a
driver would do it, and waiting is for what the kernel says.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, TypeVar

import attrs

from tests.vm.modules import loadable
from tests.vm.wiring import MODULES, QMP_PORT, nic

from .qmp import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Found = TypeVar("Found")

PCI = Path("/sys/bus/pci")
# The most VFs that the emulated NIC has; changing from one number to another goes over 0.
MAX_VFS = 7
# Netlink protocols and groups: changes of links, and uevents as the kernel sends them.
_HINTS = ((socket.NETLINK_ROUTE, 1), (15, 1))


def port(name: str) -> Path:
    """The device of the machine's serial port of that name."""
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text(encoding="ascii").strip() == name:
            return Path("/dev") / entry.name
    raise LookupError(f"the machine has no port {name}")


def monitor() -> Monitor:
    """The machine's monitor; one at a time can be open."""
    return Monitor(port(QMP_PORT))


def load(module: str) -> None:
    """Load a module of the guest's kernel, with those it needs."""
    loaded = {entry.name for entry in Path("/sys/module").iterdir()}
    for name, content in loadable(Path(os.environ[MODULES]), [module], loaded).items():
        with NamedTemporaryFile(suffix=f"{name}.ko") as file:
            file.write(content)
            file.flush()
            _busybox("insmod", file.name)


@contextmanager
def _hints() -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds for a change of a device or a link."""
    with ExitStack() as stack:
        diagnose = []
        for protocol, groups in _HINTS:
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            hint = stack.enter_context(socket.socket(socket.AF_NETLINK, kind, protocol))
            hint.bind((0, groups))
            diagnose.append(hint)

        def hinted(within_s: float) -> bool:
            ready = select.select(diagnose, [], [], within_s)[0]
            for hint in ready:
                _drop_message(hint)
            return bool(ready)

        yield hinted


def _drop_message(hint: socket.socket) -> None:
    try:
        hint.recv(65536)
    except OSError as error:
        if error.errno != errno.ENOBUFS:  # lost messages are a hint too
            raise


def await_truth(tell: Callable[[], Found], within_s: float = 60.0) -> Found:
    """The first true answer of `tell`, asked again whenever a device or a link changed."""
    deadline = time.monotonic() + within_s
    with _hints() as hinted:
        while not (found := tell()):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"not so within {within_s} s")
            # Removals are announced before the files are gone: look again a little later.
            hinted(min(left_s, 0.05))
        return found


def await_quiet(for_s: float = 1.1) -> None:
    """Wait until no device and no link has changed for so long.

    Before a loss of carrier is timed: of one that comes within a second after another change of
    a link, the kernel tells at the end of that second (linkwatch_schedule_work), else at once.
    """
    with _hints() as hinted:
        while hinted(for_s):
            pass


@attrs.frozen
class Function:
    """A PCI function by its address, whether it is there or not."""

    address: str

    @property
    def path(self) -> Path:
        return PCI / "devices" / self.address

    @property
    def netdev(self) -> str | None:
        folder = self.path / "net"
        return next((entry.name for entry in folder.iterdir()), None) if folder.exists() else None

    @property
    def driver(self) -> str | None:
        return self._target("driver")

    @property
    def iommu_group(self) -> str | None:
        return self._target("iommu_group")

    @property
    def numa_node(self) -> int:
        return int((self.path / "numa_node").read_text(encoding="ascii"))

    @property
    def vfs(self) -> tuple[Function, ...]:
        """Its VFs in the order of their index."""
        links = sorted(self.path.glob("virtfn*"), key=lambda link: int(link.name[6:]))
        return tuple(Function(link.readlink().name) for link in links)

    def set_vfs(self, count: int) -> tuple[Function, ...]:
        """Make so many VFs, in place of those that are there."""
        knob = self.path / "sriov_numvfs"
        knob.write_text("0", encoding="ascii")
        if count:
            knob.write_text(str(count), encoding="ascii")
        return self.vfs

    def bind(self, driver: str | None) -> None:
        """Give it to a driver, or with None to the one that the kernel chooses."""
        if self.driver:
            (self.path / "driver/unbind").write_text(self.address, encoding="ascii")
        (self.path / "driver_override").write_text(f"{driver or ''}\n", encoding="ascii")
        (PCI / "drivers_probe").write_text(self.address, encoding="ascii")

    def _target(self, link: str) -> str | None:
        path = self.path / link
        return path.readlink().name if path.is_symlink() else None


@attrs.frozen
class Nic:
    """The NIC of that number in the machine's list: a slot, a cable, and a PF."""

    number: int

    @property
    def _slot(self) -> Path:
        return PCI / "slots" / str(self.number + 1)

    @property
    def pf(self) -> Function:
        """Its PF: the slot keeps the address while the NIC is out."""
        return Function((self._slot / "address").read_text(encoding="ascii").strip() + ".0")

    def set_cable(self, *, plugged: bool) -> None:
        """Pull the cable, and the carrier goes at once; plug it in, and it comes 0.5 s later."""
        with monitor() as asked:
            asked.run("set_link", name=nic(self.number)["id"], up=plugged)

    def unplug(self) -> None:
        """Take the NIC out of its running machine, in the orderly way."""
        name = nic(self.number)["id"]
        with monitor() as asked:
            # It presses the button of the slot; the kernel waits five seconds for a second press,
            # then removes the device. Switching the slot off meanwhile can hang for ever.
            asked.run("device_del", id=name)
            asked.await_event("DEVICE_DELETED", 90, device=name)

    def plug(self) -> None:
        """Put the NIC back, and wait until its driver has made a netdev."""
        with monitor() as asked:
            asked.run("device_add", **nic(self.number))
        await_truth(lambda: self.pf.netdev)


def carrier(netdev: str) -> bool | None:
    """Whether a netdev has carrier; None while it is administratively down."""
    try:
        text = Path(f"/sys/class/net/{netdev}/carrier").read_text(encoding="ascii")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None
    return text.strip() == "1"


def set_up(netdev: str, *, up: bool) -> None:
    """Set a netdev administratively up or down."""
    _set_link(netdev, "up" if up else "down")


def rename(netdev: str, name: str) -> None:
    """Give a netdev another name; it must be administratively down in older kernels."""
    _set_link(netdev, "name", name)


@contextmanager
def default_route(netdev: str) -> Iterator[None]:
    """Give a netdev that is up an address and the host's default route, for as long."""
    _busybox("ip", "address", "add", "192.0.2.1/24", "dev", netdev)
    _busybox("ip", "route", "add", "default", "via", "192.0.2.2", "dev", netdev)
    try:
        yield
    finally:
        _busybox("ip", "address", "flush", "dev", netdev)


def _set_link(netdev: str, *words: str) -> None:
    _busybox("ip", "link", "set", netdev, *words)


def _busybox(*words: str) -> None:
    # For links too: pyroute2 takes the emulated processor five seconds to import.
    subprocess.run(["/run/busybox", *words], check=True)

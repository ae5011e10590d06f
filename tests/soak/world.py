"""The node of the soak, and what is true of it: every list of kubelet is compared with this."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

from tests.support.hardware import Hardware, VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Endpoint, Kubelet
from tests.support.netns import LinkSwitch, NetNamespace, UeventSource
from tests.support.podresources import PodResources
from tests.support.protocol import message

POOLS = 20
VFS = int(os.environ.get("SRIOV_AGENT_SOAK_VFS", "1024"))
"""For each PF."""
PREFIX = "example.com"
HTTP_PORT = 18090
SETTLES_WITHIN_S = 120.0
"""Patience with a busy machine; what is printed is how long it took."""
WITH_NETDEVS = VfHardware("1889", "iavf", iommu=False)
BARE = VfHardware("1889", "pci-stub", netdevs=False, iommu=False)
LARGE = Hardware("8086", "1592", "ice", total_vfs=VFS, vf=BARE)


class CheckingKubelet(Kubelet):
    """Kubelet's stand-in, which looks at each list as it comes and keeps only the newest."""

    def __init__(self, world: World) -> None:
        super().__init__(world.host.roots.kubelet)
        self._world = world
        self.lies: list[str] = []
        self.lists_seen = 0

    def _receive(self, endpoint: Endpoint, response: Any) -> None:  # noqa: ANN401 - run time class
        super()._receive(endpoint, response)
        with self._changed:
            self.lists_seen += 1
            self.lists.clear()
            del endpoint.lists[:-1]
            ids = [device.id for device in endpoint.lists[-1]]
        foreign = [i for i in ids if self._world.pool_of.get(i) != endpoint.resource]
        if foreign or len(set(ids)) != len(ids):
            self.lies.append(f"{endpoint.resource}: {len(ids)} devices, foreign {foreign[:3]}")

    def agrees(self, name: str, wanted: frozenset[str], streams: int) -> bool:
        """Wait for exactly these healthy devices, told by so many streams; whether it came."""

        def settled() -> bool:
            is_told = frozenset(self.allocatable(name)) == wanted
            return is_told and self.streams(name) == streams

        with self._changed:
            return bool(self._changed.wait_for(settled, SETTLES_WITHIN_S))

    def streams(self, resource: str) -> int:
        """How many lists of a resource are followed now."""
        with self._changed:
            return sum(e.resource == resource and not e.ended for e in self.endpoints)


class World:
    """A laid-out node on real links: who changes it holds ``acting``, who judges it ``still``."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="soak", dir="/dev/shm"))
        self.host = HostBuilder(self.folder)
        self.config = self.folder / "config.json"
        self.pfs = [f"{number + 1:04x}:10:00.0" for number in range(POOLS)]
        self.pool_of = {
            self.host.vf_address(pf, index): resource(number)
            for number, pf in enumerate(self.pfs)
            for index in range(VFS)
        }
        self.vf_count = [VFS] * POOLS
        self.link_up = [True] * POOLS
        self.configured = list(range(POOLS))
        self.holders: dict[str, str] = {}
        self._acting = 0
        self._turn = threading.Condition()
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        enter = self._parts.enter_context
        self._parts.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.namespace = enter(NetNamespace())
        self.namespace.ip("link set lo up")
        self._lay_out()
        self.host.roots.device_plugins.mkdir(parents=True)
        self.switch = LinkSwitch(self.namespace)
        self._parts.callback(self.switch.close)
        self.uevents = UeventSource(self.namespace)
        self._parts.callback(self.uevents.close)
        self.far = [self.namespace.ifindex(f"far{number}") for number in range(POOLS)]
        self.write_config()
        self.pods = enter(PodResources(self.host.roots.kubelet))
        self.kubelet = enter(CheckingKubelet(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _lay_out(self) -> None:
        """Two PFs are laid out function by function, the others are copies of theirs."""
        for number in range(POOLS):
            if number < 2:
                template = self.folder / f"template{number}"
                HostBuilder(template).pf(self.pfs[number], f"p{number}", LARGE)
                HostBuilder(template).add_vfs(self.pfs[number], VFS, self.hardware(number))
            copy_host(self.folder / f"template{number % 2}", self.host.root, number % 2, number)
            ifindex = self.namespace.veth(f"p{number}", f"far{number}")
            (self.host.root / f"sys/class/net/p{number}/ifindex").write_text(f"{ifindex}\n")

    @staticmethod
    def hardware(number: int) -> VfHardware:
        """What the VFs of a PF are: every second PF has netdevs."""
        return WITH_NETDEVS if number % 2 else BARE

    def write_config(self, *, broken: bool = False, note: str = "") -> None:
        """Write the pools that are configured; ``note`` is one pool's additionalInfo."""
        pools: list[dict[str, object]] = [
            {
                "resourceName": f"net{number}",
                "resourcePrefix": PREFIX,
                "selectors": {"pfNames": [f"p{number}"]},
                "health": {"recoveryHoldSeconds": number % 2},
            }
            for number in self.configured
        ]
        pools[0]["additionalInfo"] = {"*": {"note": note}}
        text = json.dumps({"resourceList": pools})
        self.config.write_text(text[:-1] if broken else text)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Change the world inside; waits while it is judged."""
        with self._turn:
            self._turn.wait_for(lambda: self._acting >= 0)
            self._acting += 1
        try:
            yield
        finally:
            with self._turn:
                self._acting -= 1
                self._turn.notify_all()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing changes inside."""
        with self._turn:
            self._turn.wait_for(lambda: self._acting == 0)
            self._acting = -1
        try:
            yield
        finally:
            with self._turn:
                self._acting = 0
                self._turn.notify_all()

    def truth(self, number: int) -> frozenset[str]:
        """The devices of a pool that pods may get now."""
        if number not in self.configured or not self.link_up[number]:
            return frozenset()
        pf = self.pfs[number]
        return frozenset(self.host.vf_address(pf, i) for i in range(self.vf_count[number]))

    def take_vfs(self, number: int, count: int) -> None:
        """The last VFs of a PF vanish, each with the kernel's event."""
        pf = self.pfs[number]
        for index in range(self.vf_count[number] - count, self.vf_count[number]):
            vf = self.host.vf_address(pf, index)
            (self.host.folder(pf) / f"virtfn{index}").unlink()
            self.host.remove(vf)
            self._uevent("remove", pf, vf)
        self.vf_count[number] -= count

    def put_back_vfs(self, number: int) -> None:
        """All VFs of a PF are there again."""
        pf = self.pfs[number]
        for vf in self.host.add_vfs(pf, VFS, self.hardware(number))[self.vf_count[number] :]:
            self._uevent("add", pf, vf)
        self.vf_count[number] = VFS

    def _uevent(self, action: str, pf: str, vf: str) -> None:
        self.uevents.send(action, f"/devices/pci{pf[:7]}/{vf}", "pci")

    def set_link(self, number: int, *, up: bool) -> None:
        """Pull a PF's cable, or plug it in."""
        self.link_up[number] = up
        self.switch.set(self.far[number], up=up)

    def restore(self) -> None:
        """Make everything as it was at the start, so that figures can be compared."""
        for number in range(POOLS):
            if self.vf_count[number] != VFS:
                self.put_back_vfs(number)
            if not self.link_up[number]:
                self.set_link(number, up=True)
        self.configured = list(range(POOLS))
        self.write_config()
        self.holders.clear()
        self.tell_holders()

    def tell_holders(self) -> None:
        """Make kubelet's word about who holds what that of ``holders``."""
        reply = message("v1.ListPodResourcesResponse")()
        reply.pod_resources.add(name="agent", namespace="test")  # an empty list frees nothing
        for device, name in self.holders.items():
            pod = reply.pod_resources.add(name=f"pod-{device}", namespace="test")
            container = pod.containers.add(name="main")
            container.devices.add(resource_name=name, device_ids=[device])
        self.pods.reply = reply


def resource(number: int) -> str:
    """The resource of a PF's VFs."""
    return f"{PREFIX}/net{number}"


def copy_host(source: Path, target: Path, of: int, number: int) -> None:
    """Copy a host of one PF below another, as the PF of another number."""

    def renamed(text: str) -> str:
        return text.replace(f"{of + 1:04x}:", f"{number + 1:04x}:").replace(f"p{of}", f"p{number}")

    for folder, _, _ in os.walk(source):
        there = f"{target}{renamed(folder.removeprefix(str(source)))}"
        os.makedirs(there, exist_ok=True)  # noqa: PTH103 - there are hundred thousands
        for entry in os.scandir(folder):
            path = f"{there}/{renamed(entry.name)}"
            if entry.is_symlink():
                with suppress(FileExistsError):
                    os.symlink(renamed(os.readlink(entry.path)), path)  # noqa: PTH211 - likewise
            elif entry.is_file():
                text = Path(entry.path).read_text()
                if entry.name == "ifindex":
                    text = f"{int(text) + 10_000 * (number + 1)}\n"
                Path(path).write_text(text)

"""What only the second guest has: a virtio NIC, and modules whose devices the kernel makes up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.vm.guest.machine import PCI, Function, await_truth, carrier, monitor, set_up
from tests.vm.wiring import LACKING, VIRTIO, virtio_nic

_VIRTIO_SLOT = PCI / "slots/9"


def skip_without(part: str | None = None, *, modules: tuple[str, ...] = (), tool: str) -> None:
    """Skip the test, with the reason, where the guest lacks a part, a module or a tool."""
    lacking: dict[str, str] = json.loads(os.environ.get(LACKING, "{}"))
    if part in lacking:
        pytest.skip(f"no {part}: {lacking[part]}")
    for module in modules:
        if not Path("/sys/module", module).exists():
            pytest.skip(f"the kernel refused module {module}: see the guest's console")
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} of iproute2 is not there")


def run(*words: str) -> str:
    """What a tool says; an error where it fails."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


class VirtioNic:
    """The virtio NIC: each function has a netdev below its virtio device and a link of its own."""

    def __init__(self) -> None:
        skip_without(VIRTIO, modules=("virtio_net",), tool="ip")
        address = (_VIRTIO_SLOT / "address").read_text(encoding="ascii").strip()
        self.pf = Function(f"{address}.0")

    def netdev(self, function: Function) -> str:
        """The netdev of a function, once it is there."""

        def found() -> str | None:
            return next((path.name for path in function.path.glob("virtio*/net/*")), None)

        return await_truth(found) or ""

    def with_carrier(self, *functions: Function) -> None:
        """Set the netdevs of these functions up, and see their carrier."""
        for name in map(self.netdev, functions):
            set_up(name, up=True)
            await_truth(lambda name=name: carrier(name))  # type: ignore[misc] # mypy: of a default

    def set_link(self, function: Function, *, up: bool) -> None:
        """Cut the link of one function, or mend it, and see the netdev follow."""
        number = int(function.address.rpartition(".")[2])
        name = self.netdev(function)
        with monitor() as asked:
            asked.run("set_link", name=virtio_nic(number)["id"], up=up)
        await_truth(lambda: carrier(name) is up)

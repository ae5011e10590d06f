"""The guest's hardware for tests: what is plugged, and hands to change it.

Everything is done through the kernel's own interfaces or the machine's monitor, as an operator
or a driver would; waiting is always for an event of the kernel.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING

import attrs
from pyroute2 import IPRoute

from .qmp import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PCI = Path("/sys/bus/pci")
_NET = Path("/sys/class/net")
# Netlink groups: uevents as the kernel sends them, and changes of links.
_KERNEL_UEVENTS = 1
_RTMGRP_LINK = 1


def port(name: str) -> Path:
    """The device of the machine's serial port of that name."""
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == name:
            return Path("/dev") / entry.name
    raise LookupError(f"the machine has no port {name}")


@contextmanager
def hints() -> Iterator[DefaultSelector]:
    """Ready to read whenever the kernel said that a device or a link changed."""
    families = (
        (socket.NETLINK_ROUTE, _RTMGRP_LINK),
        (15, _KERNEL_UEVENTS),
    )
    ...

"""Receives uevents on a plain socket: the kernel sends one when an object appears, goes or changes.

pyroute2's socket for uevents treats the report that events were lost (ENOBUFS) as one more event,
so that a removal could be missed for ever. It also fails on names that are not UTF-8; a pod may
give its interface any name, which is in the uevent when the interface returns to the host.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator

from agent.attrs_classes import frozen
from agent.host.netlink import open_events

_NETLINK_KOBJECT_UEVENT = 15  # uapi linux/netlink.h
_KERNEL_GROUP = 1  # the kernel's own events, not udev's
_KERNEL_PORT = 0  # other senders have other port ids
_LARGEST = 1 << 16
_AT_ONCE = 64
"""Events that are read from a full queue before other tasks of the loop run."""


@frozen
class Overrun:
    """Messages were lost (ENOBUFS): all facts that they could have changed must be read again."""


@frozen
class Uevent:
    """A kernel object appeared, was removed, or changed."""

    action: str
    devpath: str
    subsystem: str

    @property
    def interface(self) -> str | None:
        """Name of the network interface, if the object is one."""
        return self.devpath.rpartition("/")[2] if self.subsystem == "net" else None


def open_uevents() -> socket.socket:
    """A socket that receives the kernel's uevents of this network namespace. Raises OSError."""
    return open_events(_NETLINK_KOBJECT_UEVENT, _KERNEL_GROUP)


async def follow_uevents(opened: socket.socket) -> AsyncGenerator[Uevent | Overrun, None]:
    """Yield every event from now on. Raises OSError if the socket fails."""
    loop = asyncio.get_running_loop()
    events_read = 0
    while True:
        try:
            data, sender = await loop.sock_recvfrom(opened, _LARGEST)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            yield Overrun()
            continue
        if sender[0] == _KERNEL_PORT:
            yield uevent(data)
        events_read += 1
        if not events_read % _AT_ONCE:
            await asyncio.sleep(0)


def uevent(data: bytes) -> Uevent:
    """An event from its text: ``ACTION@PATH``, then ``KEY=VALUE`` (lib/kobject_uevent.c).

    Names are as Python's file functions show them: bytes that are not UTF-8 are lone surrogates.
    """
    entries = data.decode(errors="surrogateescape").split("\0")
    facts = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    return Uevent(*(facts.get(key, "") for key in ("ACTION", "DEVPATH", "SUBSYSTEM")))

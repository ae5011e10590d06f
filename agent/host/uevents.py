"""The kernel's uevents on a plain socket: what it tells whenever an object comes, goes or changes.

pyroute2's socket for them takes the word that events were lost (ENOBUFS) for one more event, so
that a removal would be missed for ever. It also fails at names that are no UTF-8, and a pod may
give its interface any name, which the kernel tells of when the interface comes back.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator

from agent.attrs_classes import frozen

_NETLINK_KOBJECT_UEVENT = 15  # uapi linux/netlink.h
_KERNEL_GROUP = 1  # the kernel's own events, not udev's
_KERNEL_PORT = 0  # whoever else sends has a port of his own
_LARGEST = 1 << 16
_AT_ONCE = 64
"""Events that are taken from a full queue before others have their turn in the loop."""


@frozen
class Overrun:
    """Messages were lost (ENOBUFS): whatever they would have told must be read anew."""


@frozen
class Uevent:
    """A kernel object came, went or changed."""

    action: str
    devpath: str
    subsystem: str

    @property
    def interface(self) -> str | None:
        """Name of the network interface that it is about, if it is about one."""
        return self.devpath.rpartition("/")[2] if self.subsystem == "net" else None


def is_drained(listening: socket.socket) -> bool:
    """Whether nothing waits on a netlink socket to be read.

    Lost messages are told of once, then the kernel drops in silence until the queue was empty
    (netlink_overrun() and netlink_rcv_wake() in net/netlink/af_netlink.c).
    """
    try:
        listening.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:  # the next overrun; told here, the reader never hears of it
        return False
    return False


def open_uevents() -> socket.socket:
    """A socket that hears the kernel's own events of this network namespace. Raises OSError."""
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    opened = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
    try:
        opened.bind((0, _KERNEL_GROUP))
    except OSError:
        opened.close()
        raise
    return opened


async def follow_uevents(opened: socket.socket) -> AsyncGenerator[Uevent | Overrun, None]:
    """Every event from now on; faults of the socket come out as OSError."""
    loop = asyncio.get_running_loop()
    taken = 0
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
        taken += 1
        if not taken % _AT_ONCE:
            await asyncio.sleep(0)


def uevent(data: bytes) -> Uevent:
    """An event from its text: ``ACTION@PATH``, then ``KEY=VALUE`` (lib/kobject_uevent.c).

    Names are as the file system shows them: bytes that are no UTF-8 are lone surrogates.
    """
    entries = data.decode(errors="surrogateescape").split("\0")
    facts = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    return Uevent(*(facts.get(key, "") for key in ("ACTION", "DEVPATH", "SUBSYSTEM")))

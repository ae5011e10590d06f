"""Network namespaces for tests: real netlink, veth pairs and uevents, nothing shared."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket as sockets
import struct
import subprocess
import threading
from types import TracebackType
from typing import Self

import pytest

CLONE_NEWNET = 0x40000000
NETLINK_KOBJECT_UEVENT = 15
_RTM_NEWLINK = 16
_NLM_F_REQUEST_ACK = 5
_IFF_UP = 1

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="network namespaces need root and util-linux",
)


class NetNamespace:
    """A network namespace of its own, kept by a sleeping process; a context manager."""

    def __init__(self, *unshare: str) -> None:
        self._unshare = unshare or ("-n",)

    def __enter__(self) -> Self:
        self._holder = subprocess.Popen(
            ["unshare", *self._unshare, "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()

    @property
    def wrapper(self) -> tuple[str, ...]:
        """Words that run a command inside."""
        return ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net")

    @property
    def pid(self) -> int:
        """The process that keeps the namespace."""
        return self._holder.pid

    def ip(self, *commands: str) -> None:
        """Run commands of iproute2, as one batch."""
        subprocess.run(
            [*self.wrapper, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True
        )

    def veth(self, name: str, peer: str) -> int:
        """A veth pair, both ends up: a cable with two plugs. Returns the ifindex of ``name``."""
        self.ip(
            f"link add {name} type veth peer name {peer}",
            f"link set {name} up",
            f"link set {peer} up",
        )
        return self.ifindex(name)

    def ifindex(self, name: str) -> int:
        """The index of an interface inside."""
        shown = subprocess.run(
            [*self.wrapper, "ip", "-o", "link", "show", name],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(shown.stdout.split(":")[0])

    def socket(self, protocol: int) -> sockets.socket:
        """A netlink socket that lives inside."""
        made: list[sockets.socket] = []
        thread = threading.Thread(target=self._enter_and_open, args=(protocol, made))
        thread.start()
        thread.join()
        return made[0]

    def _enter_and_open(self, protocol: int, made: list[sockets.socket]) -> None:
        """In a thread of its own: only that thread changes its namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{self.pid}/ns/net") as namespace:  # noqa: PTH123 - a descriptor is wanted
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        made.append(sockets.socket(sockets.AF_NETLINK, sockets.SOCK_RAW, protocol))


class LinkSwitch:
    """Sets interfaces up and down by plain netlink messages: microseconds, no process started."""

    def __init__(self, namespace: NetNamespace) -> None:
        self._socket = namespace.socket(sockets.NETLINK_ROUTE)

    def set(self, ifindex: int, *, up: bool) -> None:
        """Set IFF_UP or clear it, and wait for the kernel's word."""
        header = struct.pack("=IHHII", 32, _RTM_NEWLINK, _NLM_F_REQUEST_ACK, 0, 0)
        body = struct.pack("=BxHiII", 0, 0, ifindex, _IFF_UP if up else 0, _IFF_UP)
        self._socket.send(header + body)
        error = struct.unpack_from("=i", self._socket.recv(4096), 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class UeventSource:
    """Makes the kernel broadcast uevents inside a namespace (lib/kobject_uevent.c takes them)."""

    def __init__(self, namespace: NetNamespace) -> None:
        self._socket = namespace.socket(NETLINK_KOBJECT_UEVENT)

    def send(self, action: str, devpath: str, subsystem: str) -> None:
        """Broadcast one event, as if a device had come, gone or changed."""
        broadcast_uevent(self._socket, action, devpath, subsystem)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def broadcast_uevent(source: sockets.socket, action: str, devpath: str, subsystem: str) -> None:
    """Have the kernel broadcast one uevent in the namespace of a socket of that protocol."""
    lines = (
        f"{action}@{devpath}",
        f"ACTION={action}",
        f"DEVPATH={devpath}",
        f"SUBSYSTEM={subsystem}",
    )
    payload = b"".join(line.encode() + b"\0" for line in lines)
    header = struct.pack("=IHHII", 16 + len(payload), 16, 1, 0, 0)
    source.sendto(header + payload, (0, 0))

"""The least that any agent must do for a cable: hear of it, and send a list that is ready-made.

``python -m tests.bench.pusher FOLDER VFS`` registers one pool in kubelet's FOLDER, by the agent's
own gRPC library, and turns its list over at each carrier change of an interface named ``ens...``.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

from grpclib.server import Server

from agent.host.netlink import attributes, messages, text
from agent.model.answers import ListedDevice
from agent.plugin.decoding import PluginCodec
from agent.plugin.encoding import encode_list
from agent.plugin.registration import register
from agent.roots import Roots
from agent.rpc import v1beta1
from agent.transport.unix_socket import bind_socket, socket_path
from tests.bench import harness

_HEADER_SIZE = 16  # struct ifinfomsg
_IFLA_IFNAME, _IFLA_CARRIER = 3, 33


class Service(v1beta1.DevicePluginBase):
    """Sends the list of one state or the other, as bytes."""

    def __init__(self, vfs: int) -> None:
        ids = [f"0000:{n >> 8:02x}:{n >> 3 & 31:02x}.{n & 7}" for n in range(vfs)]
        self._lists = {
            up: encode_list(tuple(ListedDevice(i, up, 0) for i in ids)) for up in (False, True)
        }
        self._changed = asyncio.Event()
        self._up = True

    def turn(self, *, up: bool) -> None:
        """The cable is plugged or pulled."""
        if up is not self._up:
            self._up = up
            self._changed.set()

    async def get_device_plugin_options(
        self, message: v1beta1.Empty
    ) -> v1beta1.DevicePluginOptions:
        """None."""
        del message
        return v1beta1.DevicePluginOptions()

    async def list_and_watch(
        self, message: v1beta1.Empty
    ) -> AsyncIterator[v1beta1.ListAndWatchResponse]:
        """One list, and the other, and so on."""
        del message
        while True:
            self._changed.clear()
            yield cast("v1beta1.ListAndWatchResponse", self._lists[self._up])
            await self._changed.wait()


def carriers(datagram: bytes) -> Iterator[bool]:
    """What a datagram tells of the carriers of PFs."""
    for _kind, _flags, payload in messages(datagram):
        facts = dict(attributes(payload[_HEADER_SIZE:]))
        if _IFLA_CARRIER in facts and text(facts[_IFLA_IFNAME]).startswith("ens"):
            yield bool(facts[_IFLA_CARRIER][0])


async def main(kubelet: Path, vfs: int) -> None:
    """Serve until killed."""
    service = Service(vfs)
    (resource,) = harness.resources(1)
    roots = Roots(kubelet_dir=str(kubelet))
    bound = bind_socket(socket_path(roots.device_plugins, resource, "g1-00000000"))
    server = Server([service], codec=PluginCodec())
    await server.start(sock=bound.listener)
    await register(roots, resource, bound.path.name, v1beta1.DevicePluginOptions())
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    events.bind((0, 1))
    gc.freeze()
    print("now INFO following", file=sys.stderr, flush=True)
    while True:
        datagram = await asyncio.get_running_loop().sock_recv(events, 1 << 16)
        for up in carriers(datagram):
            service.turn(up=up)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))

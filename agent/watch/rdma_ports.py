"""Polls the state of InfiniBand ports, since the kernel sends no event when it changes.

There is neither a uevent nor a netlink message for it. The carrier of an IPoIB netdev follows the
port, but there may be no such netdev. So the ports are read every few seconds: one small file
each, and only on a host with InfiniBand.
"""

from __future__ import annotations

import asyncio

from agent import blocking
from agent.bus import Bus
from agent.host import rdma, sysfs
from agent.model.device import InfinibandPort
from agent.model.events import HostChanged, SnapshotTaken
from agent.model.snapshot import Snapshot
from agent.roots import Roots

READ_AGAIN_S = 5.0
"""How long it may take to see that a port without IPoIB lost its link."""

Ports = dict[str, tuple[InfinibandPort, ...]]


class RdmaPortWatch:
    """Requests a scan of a function if its port is no longer in the state of the last scan.

    ``snapshot`` is the newest one; later ones are received on the bus.
    """

    def __init__(self, roots: Roots, bus: Bus, snapshot: Snapshot) -> None:
        self._roots = roots
        self._bus = bus
        self._ports = _ports_in(snapshot)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Read the ports at intervals while there are any."""
        leave = self._bus.on(SnapshotTaken, self._follow)
        try:
            while True:
                while not self._ports:
                    self._changed.clear()
                    await self._changed.wait()
                await asyncio.sleep(READ_AGAIN_S)
                await self._compare()
        finally:
            leave()

    def _follow(self, event: SnapshotTaken) -> None:
        self._ports = _ports_in(event.snapshot)
        self._changed.set()

    async def _compare(self) -> None:
        scanned = self._ports
        try:
            changed = await blocking.call(
                "rdma ports", "", lambda: _changed(self._roots, scanned), limit_s=None
            )
        except OSError:  # out of descriptors, memory or threads: the next round tries again
            return
        if changed:
            self._bus.publish(HostChanged(changed))


def _ports_in(snapshot: Snapshot) -> Ports:
    return {d.id: d.infiniband_ports for d in snapshot.devices if d.infiniband_ports}


def _changed(roots: Roots, ports: Ports) -> frozenset[str]:
    """The functions with a port whose state changed; unreadable ports count as unchanged."""
    with sysfs.folder(roots.sys) as sys:
        if sys is None:
            return frozenset()
        return frozenset(
            function
            for function, scanned in ports.items()
            if any(rdma.port_state(sys, p) not in {None, p.state} for p in scanned)
        )

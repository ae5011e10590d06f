"""Follows the state of InfiniBand ports, of which the kernel sends no event.

A change of the state of an RDMA port is neither a uevent nor a message of netlink; an IPoIB netdev
that is set up shows it by its carrier, which may not be there. So the ports are read again every
few seconds: two small files each, and only on a host with InfiniBand.
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
"""How late the agent may see that a port without IPoIB lost its link."""

Ports = dict[str, tuple[InfinibandPort, ...]]


class RdmaPortWatch:
    """Publishes a hint at a scan of the function whose port is not in the state that was scanned.

    ``snapshot`` is the newest; later ones come on the bus.
    """

    def __init__(self, roots: Roots, bus: Bus, snapshot: Snapshot) -> None:
        self._roots = roots
        self._bus = bus
        self._ports = _ports_in(snapshot)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Read the ports again and again, while there are any."""
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
            self._bus.publish(HostChanged("rdma port", changed))


def _ports_in(snapshot: Snapshot) -> Ports:
    return {d.id: d.infiniband_ports for d in snapshot.devices if d.infiniband_ports}


def _changed(roots: Roots, ports: Ports) -> frozenset[str]:
    """The functions of which a port has another state now; one that cannot be read has none."""
    with sysfs.folder(roots.sys) as sys:
        if sys is None:
            return frozenset()
        return frozenset(
            function
            for function, scanned in ports.items()
            if any(rdma.port_state(sys, p) not in {None, p.state} for p in scanned)
        )

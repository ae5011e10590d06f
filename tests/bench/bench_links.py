"""From cables pulled to lists at kubelet, beside a bare reader who hears of the same cables.

As root, in network namespaces of its own: every PF is one end of a veth pair, all far ends are set
down or up in a row, and the clock runs from before the first until kubelet has the last pool's
list, or the bare reader has the last cable's message. What delays the kernel's word delays both.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable

from agent.host.netlink import messages
from tests.bench import harness
from tests.bench.harness import Figure, Result
from tests.bench.peer import Peer
from tests.bench.process import Machine
from tests.support.host_builder import HostBuilder
from tests.support.netns import LinkSwitch, NetNamespace

_SETTLE_S = 0.02
_IFINDEX = struct.Struct("=4xi")  # ifi_index of struct ifinfomsg
_IFLA_CARRIER = 33


def wire(namespace: NetNamespace, host: HostBuilder, pfs: int) -> list[int]:
    """Make each PF's netdev one end of a cable; the interface indexes of the far ends."""
    namespace.ip(
        *(f"link add ens{n} type veth peer name far{n}" for n in range(pfs)),
        *(f"link set {end}{n} up" for n in range(pfs) for end in ("ens", "far")),
    )
    index = indexes(namespace)
    for number in range(pfs):
        folder = host.root / "sys/class/net" / f"ens{number}"
        (folder / "ifindex").write_text(f"{index[f'ens{number}']}\n")
    return [index[f"far{number}"] for number in range(pfs)]


def indexes(namespace: NetNamespace) -> dict[str, int]:
    """Name -> index of all interfaces inside."""
    command = [*namespace.wrapper, "ip", "-json", "link"]
    shown = subprocess.run(command, check=True, capture_output=True).stdout
    return {link["ifname"]: link["ifindex"] for link in json.loads(shown)}


def flips(
    switch: LinkSwitch, far: list[int], rounds: int, arrived: Callable[[bool, float], float]
) -> list[float]:
    """Seconds from the first cable to the last effect, each time that all are pulled or plugged."""
    times = []
    for number in range(rounds):
        up = bool(number % 2)
        began = time.monotonic()
        for ifindex in far:
            switch.set(ifindex, up=up)
        times.append(arrived(up, began) - began)
        time.sleep(_SETTLE_S)
    return times


def times(pfs: int, pools: int, rounds: int) -> tuple[list[float], list[float]]:
    """To the bare reader, and to the last pool's list."""
    vfs = pfs * harness.VFS_PER_PF
    host = harness.laid_out(vfs)
    config = harness.write_config(host, vfs, pools)
    told = harness.resources(pools)
    bare: list[float] = []
    with Machine(host) as namespace, Peer(host.roots.device_plugins) as kubelet:
        far = wire(namespace, host, pfs)
        near = [indexes(namespace)[f"ens{n}"] for n in range(pfs)]
        switch, reader = LinkSwitch(namespace), BareReader(namespace)
        with namespace.agent(config) as agent:
            each = vfs // pools
            kubelet.all_listed(told, each)
            agent.wait_for("netlink.open")
            time.sleep(1.0)

            def arrived(up: bool, since: float) -> float:  # noqa: FBT001 - as it is called
                listed = kubelet.all_listed(told, each if up else 0, since)
                bare.append(reader.all_are(near, up=up) - since)
                return listed

            return bare, flips(switch, far, rounds, arrived)


def push_times(rounds: int) -> list[float]:
    """To the list of a stand-in that only hears of the cable, and has the lists of 256 ready."""
    host = harness.laid_out(harness.VFS_PER_PF)
    told = harness.resources(1)
    with Machine(host) as namespace, Peer(host.roots.device_plugins) as kubelet:
        switch, far = LinkSwitch(namespace), wire(namespace, host, 1)
        arguments = (str(host.roots.kubelet), str(harness.VFS_PER_PF))
        with namespace.stand_in("tests.bench.pusher", *arguments) as pusher:
            kubelet.all_listed(told, harness.VFS_PER_PF)
            pusher.wait_for("following")

            def arrived(up: bool, since: float) -> float:  # noqa: FBT001 - as it is called
                return kubelet.all_listed(told, harness.VFS_PER_PF if up else 0, since)

            return flips(switch, far, rounds, arrived)


class BareReader(threading.Thread):
    """The floor: only reads link messages, and notes when an interface's carrier changed."""

    def __init__(self, namespace: NetNamespace) -> None:
        super().__init__(daemon=True)
        self._events = namespace.socket(socket.NETLINK_ROUTE)
        self._events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._events.bind((0, 1))
        self._told = threading.Condition()
        self._carriers: dict[int, tuple[bool, float]] = {}
        self.start()

    def run(self) -> None:
        """Read for ever."""
        while datagram := self._events.recv(1 << 16):
            at = time.monotonic()
            with self._told:
                for _kind, _flags, payload in messages(datagram):
                    self._note(payload, at)
                self._told.notify_all()

    def _note(self, payload: bytes, at: float) -> None:
        (ifindex,) = _IFINDEX.unpack_from(payload)
        offset = 16
        while offset + 4 <= len(payload):
            length, kind = struct.unpack_from("=HH", payload, offset)
            if kind == _IFLA_CARRIER:
                carrier = bool(payload[offset + 4])
                if self._carriers.get(ifindex, (None,))[0] is not carrier:
                    self._carriers[ifindex] = (carrier, at)
            offset += (length + 3) & ~3

    def all_are(self, ifindexes: list[int], *, up: bool) -> float:
        """Wait until all carriers are so; when the last became it."""
        with self._told:
            self._told.wait_for(
                lambda: all(self._carriers.get(i, (not up,))[0] is up for i in ifindexes)
            )
            return max(self._carriers[i][1] for i in ifindexes)


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """(PFs, pools): one pool of 256, 32 pools of 256, one pool of 4096."""
    figures: list[Figure] = []
    ready = harness.spread(push_times(40 if quick else 400))
    for value, name in zip(ready, ("median", "99th percentile"), strict=True):
        figures.append(Figure("link", f"a ready-made list of 256 pushed, {name}", value, "ms"))
    for pfs, pools in ((1, 1),) if quick else ((1, 1), (16, 1), (32, 32)):
        harness.note(f"links: {pools} pools, {pfs * harness.VFS_PER_PF} VFs")
        rounds = 40 if quick else 400 if pfs == 1 else 200
        floor, taken = map(harness.spread, times(pfs, pools, rounds))
        size = f"{pools} x {pfs * harness.VFS_PER_PF // pools}"
        figures.append(Figure("link", f"{size}, median", taken[0], "ms", floor[0], "bare reader"))
        aim = "at most 5 ms above the floor" if pfs == 1 else ""
        met = taken[1] <= floor[1] + 5 if pfs == 1 else None
        name = f"{size}, 99th percentile"
        figures.append(Figure("link", name, taken[1], "ms", floor[1], "bare reader", aim, met))
    return Result(tuple(figures))


if __name__ == "__main__":
    harness.run_alone("bench_links", measure)

"""From a carrier change to kubelet: a cable is pulled, a C-core gRPC client gets the list.

``python tests/bench/bench_links.py [toggles]`` as root prints median and 99th percentile for one
pool of 256 VFs and for 32 pools of 256 VFs on 32 PFs that share one cable's fate, beside a bare
netlink reader's latency in the same run.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from agent.host.hardware import E810
from agent.host.layout import HostBuilder
from tests.support.agent import AgentProcess
from tests.support.kubelet import Kubelet
from tests.support.netns import LinkSwitch, NetNamespace

_VFS = 256
_SETTLE_S = 0.01
_HARDWARE = attrs.evolve(E810, total_vfs=_VFS)


def pools_of(count: int) -> list[dict[str, object]]:
    """One pool for each PF."""
    return [
        {
            "resourceName": f"net{number}",
            "resourcePrefix": "example.com",
            "selectors": {"pfNames": [f"pf{number}"]},
            "health": {"recoveryHoldSeconds": 0},
        }
        for number in range(count)
    ]


def lay_out(folder: Path, namespace: NetNamespace, pfs: int) -> HostBuilder:
    """PFs with 256 VFs each; only the first one's netdev is a real cable."""
    host = HostBuilder(folder)
    host.roots.device_plugins.mkdir(parents=True)
    for number in range(pfs):
        pf = host.pf(f"{number:04x}:3b:00.0", f"pf{number}", _HARDWARE, vfs=_VFS)
        namespace.veth(f"pf{number}", f"far{number}")
        ifindex = namespace.ifindex(f"pf{number}")
        (host.folder(pf) / "net" / f"pf{number}" / "ifindex").write_text(f"{ifindex}\n")
    return host


def measure(pfs: int, toggles: int) -> list[float]:
    """Seconds from the kernel's word to the last pool's list at the client, for each toggle."""
    with NetNamespace() as namespace, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        host = lay_out(Path(folder) / "host", namespace, pfs)
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"resourceList": pools_of(pfs)}))
        far = [namespace.ifindex(f"far{number}") for number in range(pfs)]
        switch = LinkSwitch(namespace)
        agent = AgentProcess(
            host.root, config, "--netlink", "on", "--log-level", "info", wrapper=namespace.wrapper
        )
        with Kubelet(host.roots.kubelet) as kubelet, agent:
            names = [f"example.com/net{number}" for number in range(pfs)]

            def wait(healthy: bool) -> None:  # noqa: FBT001 - the one thing it says
                count = _VFS if healthy else 0
                kubelet.wait_for(lambda k: all(len(k.allocatable(n)) == count for n in names))

            wait(healthy=True)
            agent.wait_for("netlink.open")
            return [toggle(switch, far, bool(n % 2), wait) for n in range(toggles)]


def toggle(
    switch: LinkSwitch,
    far: list[int],
    up: bool,  # noqa: FBT001 - the one thing it says
    wait: Callable[[bool], None],
) -> float:
    """One change of all cables, and the wait for all lists."""
    for ifindex in far[:-1]:
        switch.set(ifindex, up=up)
    began = time.perf_counter()
    switch.set(far[-1], up=up)
    wait(up)
    took = time.perf_counter() - began
    time.sleep(_SETTLE_S)
    return took


def bare_reader(toggles: int) -> list[float]:
    """The floor: a thread that only reads the netlink socket."""
    with NetNamespace() as namespace:
        namespace.veth("pf0", "far0")
        far, switch = namespace.ifindex("far0"), LinkSwitch(namespace)
        events = namespace.socket(socket.NETLINK_ROUTE)
        events.bind((0, 1))
        heard = threading.Event()

        def read() -> None:
            while events.recv(1 << 16):
                heard.set()

        threading.Thread(target=read, daemon=True).start()
        times = []
        for number in range(toggles):
            heard.clear()
            began = time.perf_counter()
            switch.set(far, up=bool(number % 2))
            heard.wait()
            times.append(time.perf_counter() - began)
            time.sleep(_SETTLE_S)
        return times


def row(name: str, times: list[float]) -> str:
    """Median, 99th percentile and worst in milliseconds."""
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    figures = (statistics.median(ordered), p99, ordered[-1])
    return f"{name:<28}" + "".join(f"{t * 1000:10.2f}" for t in figures)


def main() -> None:
    """Print the table."""
    toggles = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{'ms':<28}{'median':>10}{'p99':>10}{'worst':>10}")
    print(row("bare netlink reader", bare_reader(toggles)))
    print(row("1 pool x 256 VFs", measure(1, toggles)))
    print(row("32 pools x 256 VFs", measure(32, max(20, toggles // 20))))


if __name__ == "__main__":
    main()

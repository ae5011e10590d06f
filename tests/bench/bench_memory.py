"""Resident and private memory after the start and after 100,000 kernel events, by number of VFs.

Everything is on but HTTP: netlink, CDI, the admin socket. The events are carrier changes and
uevents, real ones, in a network namespace of its own (root); a node sees as many in an hour that
starts and ends pods without pause. A second such hour tells whether memory grows with events: in
the first, bursts fill the heap once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from tests.bench import harness
from tests.bench.bench_links import wire
from tests.bench.harness import Curve, Figure, Result
from tests.bench.peer import Peer
from tests.bench.process import Machine
from tests.support.host_builder import HostBuilder
from tests.support.netns import LinkSwitch, NetNamespace, UeventSource

_RESIDENT_AIM_MIB = 40.0
_DEVICE_AIM_KIB = 2.0
_GROWTH_AIM_MIB = 0.5
_BATCH = 1000
_PARTS = 5
_QUIET_S = 2.5
_PAUSE_S = 0.05


def measure_one(vfs: int, events: int) -> list[tuple[float, float]]:
    """(resident, private) MiB: after the start, and after each fifth of two times ``events``."""
    host = harness.laid_out(vfs)
    config = harness.write_config(host, vfs, 1)
    (told,) = harness.resources(1)
    pfs = -(-vfs // harness.VFS_PER_PF)
    with Machine(host) as namespace, Peer(host.roots.device_plugins) as kubelet:
        far = wire(namespace, host, pfs)
        with namespace.agent(config, "--use-cdi") as agent:
            kubelet.all_listed([told], vfs)
            agent.wait_for("netlink.open")
            time.sleep(_QUIET_S)
            found = [harness.memory(agent.pid)]
            for _ in range(2 * _PARTS):
                disturb(namespace, far, events // _PARTS, host)
                time.sleep(_QUIET_S)
                found.append(harness.memory(agent.pid))
            kubelet.all_listed([told], vfs)
            return found


def growth(private: Sequence[float]) -> float:
    """MiB from the last of the first hour to the last of the second, medians of three each."""
    middle = _PARTS + 1
    return max(0.0, median(private[-3:]) - median(private[middle - 3 : middle]))


def disturb(namespace: NetNamespace, far: list[int], count: int, host: HostBuilder) -> None:
    """So many events: cables in turn down and up, and now and then word of a PCI function."""
    switch, uevents = LinkSwitch(namespace), UeventSource(namespace)
    function = (
        f"/devices/{host.folder(harness.pf_address(0)).relative_to(host.root / 'sys/devices')}"
    )
    for number in range(count // 2):
        ifindex = far[number % len(far)]
        switch.set(ifindex, up=False)
        switch.set(ifindex, up=True)
        if number % _BATCH == 0:
            uevents.send("change", function, "pci")
        if number % 10 == 0:
            time.sleep(_PAUSE_S / 10)
    switch.close()
    uevents.close()


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """All sizes."""
    sizes, events = ((16, 256), 1_000) if quick else ((16, 256, 4096), 100_000)
    figures: list[Figure] = []
    resident: list[tuple[float, float]] = []
    private: list[tuple[float, float]] = []
    for vfs in sizes:
        harness.note(f"memory: {vfs} VFs, {events} events")
        found = measure_one(vfs, events)
        began, after = found[0], found[_PARTS]
        grown = growth([p for _, p in found])
        aim = f"at most {_RESIDENT_AIM_MIB:.0f} MiB" if vfs == 256 else ""
        met = began[0] <= _RESIDENT_AIM_MIB if vfs == 256 else None
        figures += [
            Figure("memory", f"resident, {vfs} VFs", began[0], "MiB", aim=aim, met=met),
            Figure("memory", f"private, {vfs} VFs", began[1], "MiB"),
            Figure("memory", f"resident after {events:,} events, {vfs} VFs", after[0], "MiB"),
            Figure(
                "memory",
                f"growth over as many again, {vfs} VFs",
                grown,
                "MiB",
                aim=f"none (less than {_GROWTH_AIM_MIB} MiB)",
                met=grown < _GROWTH_AIM_MIB,
            ),
        ]
        resident.append((vfs, began[0]))
        private.append((vfs, began[1]))
    (few, low), (many, high) = private[-2], private[-1]
    each = (high - low) * 1024 / (many - few)
    figures.append(
        Figure(
            "memory",
            f"for each device, from {few:.0f} to {many:.0f} VFs",
            each,
            "KiB",
            aim=f"at most {_DEVICE_AIM_KIB:.0f} KiB",
            met=each <= _DEVICE_AIM_KIB,
        )
    )
    curve = Curve("Memory", "VFs", "MiB", {"resident": resident, "private": private})
    return Result(tuple(figures), (curve,))


if __name__ == "__main__":
    harness.run_alone("bench_memory", measure)

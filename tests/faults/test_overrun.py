"""Netlink events that the kernel had to drop (ENOBUFS) are noticed, and what they told is read."""

from __future__ import annotations

import signal
from functools import partial

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.netns import LinkSwitch, NetNamespace, UeventSource, needs_root
from tests.support.realroot import agent_at_root
from tests.support.usage import resident_kib

pytestmark = needs_root

PF = "0000:3b:00.0"
NET = "example.com/net"
FLIPS = 20_000
"""Far more events than the receive buffer holds; each flip is one of the PF's."""
OTHERS = 40_000
"""Far more events than that, of devices that are none of the agent's business."""


def test_an_agent_that_was_suspended_while_links_flapped_is_correct_afterwards(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    host.set_driver(PF, "ixgbe")  # one that stops its VFs where the PF is set down
    config.write(pool("net", drivers=["iavf"], health={"recoveryHoldSeconds": 0}))
    with NetNamespace() as namespace:
        namespace.veth("ens1f0", "far0")
        ifindex = namespace.ifindex("ens1f0")
        (host.root / "sys/class/net/ens1f0/ifindex").write_text(f"{ifindex}\n")
        switch = LinkSwitch(namespace)
        with AgentProcess(
            host.root, config.path, "--netlink", "on", wrapper=namespace.wrapper
        ) as agent:
            kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8)
            agent.wait_for("netlink.open")
            memory_kib = resident_kib(agent.process.pid)
            for last in (False, True):
                agent.process.send_signal(signal.SIGSTOP)
                for number in range(FLIPS):
                    switch.set(ifindex, up=bool(number % 2))
                switch.set(ifindex, up=last)
                agent.process.send_signal(signal.SIGCONT)
                agent.wait_for("netlink.overrun")
                kubelet.wait_for(partial(has, 8 if last else 0), f"link {last}")
            assert kubelet.count(NET) == 1
            assert resident_kib(agent.process.pid) < memory_kib + 8 * 1024
            assert agent.stop() == 0
        switch.close()


def test_vfs_that_disappear_while_events_are_dropped_leave_the_list(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=32)
    config.write(pool("net", drivers=["iavf"]))
    with NetNamespace() as namespace:
        uevents = UeventSource(namespace)
        with agent_at_root(namespace, host, config.path, "--rescan-seconds", "0") as agent:
            kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 32)
            agent.wait_for("netlink.open")
            *vfs, last = host.vfs(PF)
            vanish(host, uevents, last)
            agent.wait_for("pool.assigned", lambda line: line["devices"] == 31)
            agent.process.send_signal(signal.SIGSTOP)
            for _ in range(OTHERS):
                uevents.send("change", "/devices/virtual/block/loop0", "block")
            vanish(host, uevents, *vfs[5:])
            agent.process.send_signal(signal.SIGCONT)
            agent.wait_for("netlink.overrun")
            kubelet.wait_for(partial(has, 5), "the VFs that are left")
            assert not agent.events("netlink.lost")
            assert agent.stop() == 0
        uevents.close()


def vanish(host: HostBuilder, uevents: UeventSource, *vfs: str) -> None:
    """Take VFs away, each with the kernel's event."""
    for vf in vfs:
        host.remove(vf)
        uevents.send("remove", f"/devices/pci0000:3b/{vf}", "pci")


def has(count: int, kubelet: Kubelet) -> bool:
    """Whether kubelet may hand out so many devices."""
    return len(kubelet.allocatable(NET)) == count

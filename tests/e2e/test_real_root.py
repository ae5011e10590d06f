"""``--host-root /``: the agent as deployed, on netlink and uevents, with a laid-out sysfs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.netns import NetNamespace, UeventSource, needs_root
from tests.support.realroot import agent_at_root, real_root

pytestmark = needs_root

PF = "0000:3b:00.0"
NET = "example.com/net"


@pytest.fixture
def namespace() -> Iterator[NetNamespace]:
    """A network namespace whose ``ens1f0`` is a cable, with a second one for routes."""
    with NetNamespace() as made:
        made.veth("ens1f0", "far0")
        yield made


def lists_exactly(made: tuple[str, ...], kubelet: Kubelet) -> bool:
    return kubelet.allocatable(NET) == made


def test_uevents_alone_report_vfs_that_appear_and_disappear(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    config.write(pool("net", pfNames=["ens1f0"]))
    uevents = UeventSource(namespace)
    with agent_at_root(namespace, host, config.path, "--rescan-seconds", "0") as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 1)
        agent.wait_for("netlink.open")
        for number in range(50):
            host.remove_vfs(PF)
            uevents.send("change", f"/devices/pci0000:3b/{PF}", "pci")
            kubelet.wait_for(lambda k: not k.allocatable(NET), f"none in round {number}")
            made = host.add_vfs(PF, 1 + number % 8)
            for vf in made:
                uevents.send("add", f"/devices/pci0000:3b/{vf}", "pci")
            kubelet.wait_for(partial(lists_exactly, made), f"round {number}")
    uevents.close()


def test_an_interface_whose_name_is_not_text_does_no_harm(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    name = b"x\xff\xfey"
    shown, ifindex = os.fsdecode(name), namespace.ifindex("ens1f0")
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"], health={"recoveryHoldSeconds": 0}))
    uevents = UeventSource(namespace)
    with agent_at_root(namespace, host, config.path) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 2)
        agent.wait_for("netlink.open")
        host.remove_netdev("ens1f0")
        host.netdev(shown, PF)
        (host.root / "sys/class/net" / shown / "ifindex").write_text(f"{ifindex}\n")
        rename = (b"ip", b"link", b"set", b"ens1f0", b"name", name)
        subprocess.run([*map(os.fsencode, namespace.wrapper), *rename], check=True)
        # Of a function's interface the kernel tells below the function; of this one it does not.
        uevents.send("change", f"/devices/pci0000:3b/{PF}", "pci")
        agent.wait_for("netlink.unanswered")
        host.set_carrier(shown, up=False)
        namespace.ip("link set far0 down")
        kubelet.wait_for(lambda k: not k.allocatable(NET), "the cable was pulled")
        assert agent.stop() == 0
    uevents.close()


def swap_names(namespace: NetNamespace, host: HostBuilder, first: str, second: str) -> None:
    """Let two PFs have the names of each other, in sysfs and in the kernel, as udev does it."""
    net = host.root / "sys/class/net"
    for old, new in ((first, "spare0"), (second, first), ("spare0", second)):
        link = net / old
        folder = link.resolve()
        link.unlink()
        host.link(net / new, folder.rename(folder.with_name(new)))
    namespace.ip(
        f"link set {first} name spare0",
        f"link set {second} name {first}",
        f"link set spare0 name {second}",
    )


def test_two_pfs_that_swap_names_keep_the_health_of_their_own_links(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    namespace.veth("ens2f0", "far1")
    namespace.ip("link set far1 down")
    dead = "0000:5e:00.0"
    for address, name in ((PF, "ens1f0"), (dead, "ens2f0")):
        host.pf(address, name, vfs=2)
        ifindex = host.root / "sys/class/net" / name / "ifindex"
        ifindex.write_text(f"{namespace.ifindex(name)}\n")
    host.set_carrier("ens2f0", up=False)
    for number, netdev in enumerate(f"{name}v{n}" for name in ("ens1f0", "ens2f0") for n in (0, 1)):
        (host.root / "sys/class/net" / netdev / "ifindex").write_text(f"{1000 + number}\n")
    health = {"recoveryHoldSeconds": 0}
    config.write(
        pool("net", rootDevices=[PF], health=health),
        pool("dead", rootDevices=[dead], health=health),
    )
    uevents = UeventSource(namespace)
    with agent_at_root(namespace, host, config.path) as agent:
        kubelet.wait_for(lambda k: k.allocatable(NET) == host.vfs(PF))
        kubelet.wait_for(lambda k: len(k.lists) == 2, "a list of each pool")
        agent.wait_for("netlink.open")
        for _ in range(5):
            swap_names(namespace, host, "ens1f0", "ens2f0")
            for address in (PF, dead):
                uevents.send("change", f"/devices/pci0000:{address[5:7]}/{address}", "pci")
        namespace.ip("link set far0 down")
        kubelet.wait_for(lambda k: not k.allocatable(NET), "its own cable was pulled")
    uevents.close()
    lists = [[d.healthy for d in devices] for resource, devices in kubelet.lists if resource == NET]
    assert lists == [[True, True], [False, False]]
    assert not any(d.healthy for resource, ds in kubelet.lists if resource != NET for d in ds)


def test_a_late_driver_is_noticed_by_its_bind_event(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    late = host.vfs(PF)[1]
    host.set_driver(late, None)
    config.write(pool("net", drivers=["iavf"]))
    uevents = UeventSource(namespace)
    with agent_at_root(namespace, host, config.path) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 1)
        agent.wait_for("netlink.open")
        host.set_driver(late, "iavf")
        uevents.send("bind", f"/devices/pci0000:3b/{late}", "pci")
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 2)
    uevents.close()


def test_a_default_route_that_moves_removes_its_new_interface_from_the_pool(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    namespace.veth("ens2f0", "far1")
    namespace.ip(
        "addr add 10.0.0.1/24 dev ens1f0",
        "addr add 10.0.1.1/24 dev ens2f0",
        "route add default via 10.0.0.2",
    )
    host.pf(PF, "ens1f0")
    host.pf("0000:5e:00.0", "ens2f0")
    config.write(pool("net", vendors=["8086"]))
    with agent_at_root(namespace, host, config.path) as agent:
        kubelet.wait_for(lambda k: k.allocatable(NET) == ("0000:5e:00.0",))
        agent.wait_for("netlink.open")
        namespace.ip("route replace default via 10.0.1.2")
        kubelet.wait_for(lambda k: k.allocatable(NET) == (PF,))
        namespace.ip("route replace default nexthop via 10.0.0.2 nexthop via 10.0.1.2")
        kubelet.wait_for(lambda k: not k.allocatable(NET))


def test_a_default_route_that_ends_with_its_address_or_its_link_frees_its_interface(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    route = ("addr replace 10.0.0.1/24 dev ens1f0", "route replace default via 10.0.0.2")
    host.pf(PF, "ens1f0")
    config.write(pool("net", vendors=["8086"], health={"link": False}))
    with agent_at_root(namespace, host, config.path) as agent:
        kubelet.wait_for(lambda k: k.allocatable(NET) == (PF,))
        agent.wait_for("netlink.open")
        for end in ("addr del 10.0.0.1/24 dev ens1f0", "link set ens1f0 down"):
            namespace.ip(*route)
            kubelet.wait_for(lambda k: not k.allocatable(NET), "in use")
            namespace.ip(end)
            kubelet.wait_for(lambda k: k.allocatable(NET) == (PF,), end)


def test_a_vf_that_the_host_begins_to_use_leaves_its_pool_at_once_and_comes_back(
    namespace: NetNamespace, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    used, free = host.vfs(PF)
    namespace.veth("ens1f0v0", "far1")
    namespace.ip("link add br0 type bridge")
    config.write(pool("net", pfNames=["ens1f0"]))
    with agent_at_root(namespace, host, config.path, "--rescan-seconds", "0") as agent:
        kubelet.wait_for(lambda k: k.allocatable(NET) == (used, free))
        agent.wait_for("netlink.open")
        namespace.ip("addr add 10.0.0.1/24 dev ens1f0v0")
        kubelet.wait_for(lambda k: k.allocatable(NET) == (free,), "an address and a route")
        namespace.ip("addr del 10.0.0.1/24 dev ens1f0v0")
        kubelet.wait_for(lambda k: k.allocatable(NET) == (used, free), "none any more")
        host.enslave("ens1f0v0", "br0")
        namespace.ip("link set ens1f0v0 master br0")
        kubelet.wait_for(lambda k: k.allocatable(NET) == (free,), "part of a bridge")
        net = host.root / "sys/class/net"
        for link in ("ens1f0v0/master", "ens1f0v0/upper_br0", "br0/lower_ens1f0v0"):
            (net / link).unlink()
        namespace.ip("link set ens1f0v0 nomaster")
        kubelet.wait_for(lambda k: k.allocatable(NET) == (used, free), "of none")


def test_discover_names_the_reason_on_a_node_of_its_own(
    namespace: NetNamespace, host: HostBuilder
) -> None:
    namespace.ip("addr add 10.0.0.1/24 dev ens1f0", "route add default via 10.0.0.2")
    host.pf(PF, "ens1f0")
    command = [
        *(*namespace.wrapper, *real_root(host.root)),
        *(sys.executable, "-m", "agent", "discover", "-o", "json"),
    ]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    (device,) = json.loads(shown.stdout)["devices"]
    assert device["netdev"] == "ens1f0"
    assert device["pool"] is None
    assert device["reason"] == "in use by the host: ens1f0 carries the default route"

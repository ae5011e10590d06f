"""Links that fail and heal, on real veth pairs in a network namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder, Port
from tests.support.kubelet import Kubelet
from tests.support.netns import LinkSwitch, NetNamespace, needs_root
from tests.support.usage import resident_kib

pytestmark = needs_root

PF = "0000:3b:00.0"
NET = "example.com/net"
AT_ONCE = {"link": True, "recoveryHoldSeconds": 0}


@pytest.fixture
def namespace() -> Iterator[NetNamespace]:
    """A network namespace whose ``ens1f0`` is a cable to ``far0``."""
    with NetNamespace() as made:
        made.veth("ens1f0", "far0")
        yield made


@pytest.fixture
def switch(namespace: NetNamespace) -> Iterator[LinkSwitch]:
    """Sets links up and down in the namespace."""
    made = LinkSwitch(namespace)
    yield made
    made.close()


@pytest.fixture
def laid_out(host: HostBuilder, namespace: NetNamespace) -> HostBuilder:
    """A host whose PF's netdev is the namespace's ``ens1f0``, with eight VFs."""
    host.pf(PF, "ens1f0", vfs=8)
    (host.root / "sys/class/net/ens1f0/ifindex").write_text(f"{namespace.ifindex('ens1f0')}\n")
    return host


def agent_in(namespace: NetNamespace, host: HostBuilder, config: Path) -> AgentProcess:
    return AgentProcess(host.root, config, "--netlink", "on", wrapper=namespace.wrapper)


def all_of(kubelet: Kubelet, *, healthy: bool, devices: int = 8) -> None:
    kubelet.wait_for(
        lambda k: len(k.allocatable(NET)) == (devices if healthy else 0),
        f"{devices} devices healthy={healthy}",
    )


def test_a_pulled_cable_makes_the_vfs_unhealthy_until_it_is_plugged_in(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    far = namespace.ifindex("far0")
    with agent_in(namespace, laid_out, config.path) as agent:
        all_of(kubelet, healthy=True)
        agent.wait_for("netlink.open")
        for _ in range(3):
            switch.set(far, up=False)
            all_of(kubelet, healthy=False)
            switch.set(far, up=True)
            all_of(kubelet, healthy=True)
        assert agent.events("device.unhealthy", at_least=1)[0]["cause"] == "no carrier"
        lists = [devices for resource, devices in kubelet.lists if resource == NET]
        assert len(lists) == 7, "one list for each change and the first"


def test_a_pf_that_is_set_down_leaves_its_vfs_healthy_with_one_warning(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    ifindex = namespace.ifindex("ens1f0")
    with agent_in(namespace, laid_out, config.path) as agent:
        all_of(kubelet, healthy=True)
        agent.wait_for("netlink.open")
        switch.set(ifindex, up=False)
        warning = agent.wait_for("host.pf_down")
        assert (warning["pf"], warning["interface"]) == (PF, "ens1f0")
        switch.set(ifindex, up=True)
        switch.set(namespace.ifindex("far0"), up=False)
        all_of(kubelet, healthy=False)
        assert len(agent.events("host.pf_down")) == 1
        lists = [devices for resource, devices in kubelet.lists if resource == NET]
        assert [any(d.healthy for d in devices) for devices in lists] == [True, False]


def test_a_pf_that_is_set_down_makes_its_vfs_unhealthy_if_its_driver_stops_them(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    """Until a VF's own carrier proves that it has a link."""
    laid_out.set_driver(PF, "ixgbe")
    namespace.veth("ens1f0v0", "far1")
    for number, netdev in enumerate(f"ens1f0v{n}" for n in range(8)):
        ifindex = 100 + number if number else namespace.ifindex(netdev)
        (laid_out.root / "sys/class/net" / netdev / "ifindex").write_text(f"{ifindex}\n")
    laid_out.set_admin("ens1f0v0", up=True)
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    with agent_in(namespace, laid_out, config.path) as agent:
        all_of(kubelet, healthy=True)
        agent.wait_for("netlink.open")
        switch.set(namespace.ifindex("ens1f0"), up=False)
        first = laid_out.vfs(PF)[0]
        kubelet.wait_for(lambda k: k.allocatable(NET) == (first,), "it has a carrier of its own")
        assert agent.wait_for("device.unhealthy")["cause"] == "PF down"
        switch.set(namespace.ifindex("far1"), up=False)
        all_of(kubelet, healthy=False)


def test_the_bond_of_a_vf_lag_keeps_the_vfs_healthy_until_its_last_cable_is_pulled(
    namespace: NetNamespace,
    switch: LinkSwitch,
    host: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    """A bridge stands in for the bond, since a test machine's kernel may have no bonding."""
    namespace.veth("ens1f1", "far1")
    namespace.ip("link add bond0 type bridge", "link set bond0 up")
    for n in range(2):
        namespace.ip(f"link set ens1f{n} master bond0")
        address = f"0000:3b:00.{n}"
        host.pf(address, None, vfs=2)
        host.netdev(f"ens1f{n}", address, port=Port(f"p{n}", "0c42a1"))
        host.enslave(f"ens1f{n}", "bond0")
    net = host.root / "sys/class/net"
    (net / "bond0/bonding").mkdir()
    for name in ("ens1f0", "ens1f1", "bond0"):
        (net / name / "ifindex").write_text(f"{namespace.ifindex(name)}\n")
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    with agent_in(namespace, host, config.path) as agent:
        all_of(kubelet, healthy=True, devices=4)
        agent.wait_for("netlink.open")
        switch.set(namespace.ifindex("far1"), up=False)
        switch.set(namespace.ifindex("far0"), up=False)
        all_of(kubelet, healthy=False)
        assert agent.wait_for("device.unhealthy")["detail"] == "bond bond0 has no carrier"
        switch.set(namespace.ifindex("far1"), up=True)
        all_of(kubelet, healthy=True, devices=4)
        lists = [devices for resource, devices in kubelet.lists if resource == NET]
        assert [len({d.healthy for d in devices}) for devices in lists] == [1, 1, 1]


def test_a_pf_that_moves_to_another_namespace_is_unknown_and_healthy(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    with NetNamespace() as other, agent_in(namespace, laid_out, config.path) as agent:
        all_of(kubelet, healthy=True)
        agent.wait_for("netlink.open")
        switch.set(namespace.ifindex("far0"), up=False)
        all_of(kubelet, healthy=False)
        namespace.ip(f"link set ens1f0 netns {other.pid}")
        all_of(kubelet, healthy=True)


def test_a_link_that_is_down_before_the_start_is_in_the_first_list(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    laid_out.set_carrier("ens1f0", up=False)
    switch.set(namespace.ifindex("far0"), up=False)
    config.write(pool("net", drivers=["iavf"]))
    with agent_in(namespace, laid_out, config.path) as agent:
        kubelet.wait_for(lambda k: any(r == NET for r, _ in k.lists), "a list")
        assert not any(d.healthy for d in kubelet.lists[0][1])
        agent.wait_for("netlink.open")


def test_link_health_can_be_switched_off_for_a_pool(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    config.write(
        pool("net", pfNames=["ens1f0#0-3"], health={"link": False}),
        pool("seen", pfNames=["ens1f0#4-7"], health=AT_ONCE),
    )
    with agent_in(namespace, laid_out, config.path) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable("example.com/seen")) == 4)
        agent.wait_for("netlink.open")
        switch.set(namespace.ifindex("far0"), up=False)
        kubelet.wait_for(lambda k: not k.allocatable("example.com/seen"))
        assert len(kubelet.allocatable(NET)) == 4


def test_a_burst_of_100_000_events_of_other_interfaces_pushes_nothing_and_loses_nothing(
    namespace: NetNamespace,
    switch: LinkSwitch,
    laid_out: HostBuilder,
    config: ConfigFile,
    kubelet: Kubelet,
) -> None:
    config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    namespace.veth("other0", "other1")
    other, far = namespace.ifindex("other1"), namespace.ifindex("far0")
    with agent_in(namespace, laid_out, config.path) as agent:
        all_of(kubelet, healthy=True)
        agent.wait_for("netlink.open")
        switch.set(far, up=False)
        all_of(kubelet, healthy=False)
        before, memory_kib = len(kubelet.lists), resident_kib(agent.process.pid)
        for number in range(50_000):  # each change of one end is told for both
            switch.set(other, up=bool(number % 2))
        switch.set(far, up=True)
        all_of(kubelet, healthy=True)
        assert len(kubelet.lists) == before + 1
        assert resident_kib(agent.process.pid) < memory_kib + 4096


def test_a_pf_is_found_by_its_alternative_name_which_may_be_added_and_removed(
    namespace: NetNamespace, laid_out: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    config.write(pool("net", pfNames=["sriov1#0-3"], health=AT_ONCE))
    namespace.ip("link property add dev ens1f0 altname sriov1")
    with agent_in(namespace, laid_out, config.path) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 4, "known at the start")
        agent.wait_for("netlink.open")
        namespace.ip("link property del dev ens1f0 altname sriov1")
        kubelet.wait_for(lambda k: not k.allocatable(NET), "the name is gone")
        namespace.ip("link property add dev ens1f0 altname sriov1")
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 4, "the name is back")

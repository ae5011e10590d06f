"""The agent beside a real kubelet and a real containerd: what pods get, and what nodes count."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .agents import PORT_0, Machine, allocatable, group, lay_out, pool
from .node import Node
from .pods import Container
from .waiting import eventually

VFIO = {"drivers": ["vfio-pci"]}


@pytest.fixture(scope="module")
def machine(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One laid-out host for all tests; each test has resources of its own."""
    return lay_out(node, tmp_path_factory.mktemp("machine"))


@pytest.fixture
def pod(node: Node, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a pod that is removed at the end."""
    name = request.node.originalname.replace("test_", "").replace("_", "-")[:40].rstrip("-")
    yield name
    node.pods.remove(name)


def held(node: Node, pod: str) -> tuple[set[str], set[int]]:
    """What pod-resources tells of a pod: its devices, and their NUMA nodes."""
    told = node.pods.holds(pod)
    return {d for h in told for d in h.devices}, {n for h in told for n in h.numa}


@pytest.mark.parametrize("way", ["legacy", "watcher"])
def test_the_resource_is_counted_with_either_registration_method(
    node: Node, machine: Machine, way: str
) -> None:
    resource = f"example.com/by_{way}"
    pools = pool(f"by_{way}", {"drivers": ["iavf"]})
    with machine.agent(way, pools, arguments=("--registration", way)):
        assert allocatable(node, resource, 4) == frozenset(machine.kernel_vfs)
        told = eventually(
            lambda: (node.kubelet.checkpoint()["RegisteredDevices"] or {}).get(resource),
            "a checkpoint",
        )
        assert sorted(told) == sorted(machine.kernel_vfs)
    allocatable(node, resource, 0)


def test_a_pod_gets_its_env_its_device_nodes_and_its_numa_node(
    node: Node, machine: Machine, pod: str
) -> None:
    with machine.agent("plain", pool("plain", VFIO, additionalInfo={"*": {"zone": "a"}})):
        allocatable(node, "example.com/plain", 8)
        node.pods.write(pod, Container(asks={"example.com/plain": 2}))
        node.pods.running(pod)
        environ = node.pods.environ(pod)
        ids = environ["PCIDEVICE_EXAMPLE_COM_PLAIN"].split(",")
        nodes = node.pods.device_nodes(pod)
        devices, numa = held(node, pod)
    groups = {f"/dev/vfio/{group(machine.host, vf)}" for vf in ids}
    assert len(groups) == 2
    assert {n for n in nodes if "vfio" in n} == {"/dev/vfio/vfio", *groups}
    info = json.loads(environ["PCIDEVICE_EXAMPLE_COM_PLAIN_INFO"])
    assert {i["vfio"]["dev-mount"] for i in info.values()} == groups
    assert {i["extra"]["zone"] for i in info.values()} == {"a"}
    assert (devices, numa) == (set(ids), {1})


def test_kubelet_honours_the_preference_for_different_pfs(
    node: Node, machine: Machine, pod: str
) -> None:
    with machine.agent("spread", pool("spread", VFIO, allocationPolicy="spread")):
        allocatable(node, "example.com/spread", 8)
        node.pods.write(pod, Container(asks={"example.com/spread": 2}))
        node.pods.running(pod)
        ids = node.pods.environ(pod)["PCIDEVICE_EXAMPLE_COM_SPREAD"].split(",")
    first_of_each = [machine.vfio_vfs[0], machine.vfio_vfs[4]]
    assert ids == first_of_each


def test_containerd_resolves_the_cdi_devices_of_two_pools_in_one_container(
    node: Node, machine: Machine, pod: str
) -> None:
    pools = (
        pool("cdi_a", {"pfNames": ["ens1f0"], **VFIO}),
        pool("cdi_b", {"pfNames": ["ens1f1"], **VFIO}),
    )
    with machine.agent("cdi", *pools, arguments=("--use-cdi",)) as agent:
        allocatable(node, "example.com/cdi_a", 4)
        allocatable(node, "example.com/cdi_b", 4)
        asks = {"example.com/cdi_a": 1, "example.com/cdi_b": 1}
        node.pods.write(pod, Container(asks=asks))
        node.pods.running(pod)
        environ = node.pods.environ(pod)
        ids = [environ[f"PCIDEVICE_EXAMPLE_COM_CDI_{x}"] for x in "AB"]
        wanted = {"/dev/vfio/vfio", *(f"/dev/vfio/{group(machine.host, i)}" for i in ids)}
        assert {n for n in node.pods.device_nodes(pod) if "vfio" in n} == wanted
        agent.stop()
        node.pods.end_container(pod)
        after = {n for n in node.pods.device_nodes(pod) if "vfio" in n}
        assert after == wanted, "a container restarts while the agent is down"
        agent.start()
        allocatable(node, "example.com/cdi_a", 4)
        node.pods.end_container(pod)
        assert {n for n in node.pods.device_nodes(pod) if "vfio" in n} == wanted


def test_a_pod_that_asks_for_too_many_is_refused_with_the_count(
    node: Node, machine: Machine, pod: str
) -> None:
    with machine.agent("few", pool("few", {"drivers": ["iavf"]})):
        allocatable(node, "example.com/few", 4)
        node.pods.write(pod, Container(asks={"example.com/few": 5}))
        status = node.pods.failed(pod)
    assert status.reason == "UnexpectedAdmissionError"
    assert "Requested: 5, Available: 4" in status.message


def test_an_unhealthy_device_leaves_allocatable_and_comes_back(
    node: Node, machine: Machine
) -> None:
    with machine.agent("links", pool("links", {"drivers": ["iavf"]})):
        allocatable(node, "example.com/links", 4)
        machine.host.set_carrier("ens1f0", up=False)
        allocatable(node, "example.com/links", 0)
        machine.host.set_carrier("ens1f0", up=True)
        allocatable(node, "example.com/links", 4)


@pytest.mark.parametrize("way", ["legacy", "watcher"])
def test_a_restarted_kubelet_has_the_resource_again_and_its_pod_lives(
    node: Node, machine: Machine, way: str
) -> None:
    name, resource = f"lives-{way}", f"example.com/lives_{way}"
    pools = pool(f"lives_{way}", VFIO)
    with machine.agent(name, pools, arguments=("--registration", way)):
        allocatable(node, resource, 8)
        node.pods.write(name, Container(asks={resource: 1}))
        before = node.pods.running(name)
        node.kubelet.restart()
        allocatable(node, resource, 8)
        assert node.pods.running(name) == before
        assert len(held(node, name)[0]) == 1
        node.pods.remove(name)


def test_a_restarted_agent_finds_its_pool_complete_and_the_pod_running(
    node: Node, machine: Machine, pod: str
) -> None:
    with machine.agent(
        "again", pool("again", {"linkTypes": ["ether"], "drivers": ["iavf"]})
    ) as agent:
        allocatable(node, "example.com/again", 4)
        node.pods.write(pod, Container(asks={"example.com/again": 1}))
        before = node.pods.running(pod)
        ((vf,), _) = held(node, pod)
        agent.stop()
        (netdev,) = machine.host.netdevs(vf)
        machine.host.remove_netdev(netdev)  # it is in the pod's namespace, as a CNI plugin does
        agent.start()
        assert vf in allocatable(node, "example.com/again", 4)
        assert node.pods.running(pod) == before
        node.pods.end_container(pod)
        assert node.pods.environ(pod)["PCIDEVICE_EXAMPLE_COM_AGAIN"] == vf
        machine.host.netdev(netdev, vf)


def test_an_edited_configuration_is_counted_while_a_pod_runs(
    node: Node, machine: Machine, pod: str
) -> None:
    kept = pool("kept", {"pfNames": ["ens1f1#0-1"]})
    with machine.agent("edited", kept) as agent:
        allocatable(node, "example.com/kept", 2)
        node.pods.write(pod, Container(asks={"example.com/kept": 1}))
        before = node.pods.running(pod)
        agent.configure(kept, pool("added", {"pfNames": ["ens1f1#2-3"]}))
        allocatable(node, "example.com/added", 2)
        agent.configure(pool("kept", {"pfNames": ["ens1f1#0-3"]}))
        allocatable(node, "example.com/kept", 4)
        allocatable(node, "example.com/added", 0)
        assert node.pods.running(pod) == before


def test_vfs_created_while_kubelet_runs_are_counted(node: Node, machine: Machine) -> None:
    with machine.agent("grown", pool("grown", {"rootDevices": [PORT_0], "drivers": ["iavf"]})):
        allocatable(node, "example.com/grown", 4)
        machine.host.set_driver(machine.kernel_vfs[3], None)
        allocatable(node, "example.com/grown", 3)
        machine.host.set_driver(machine.kernel_vfs[3], "iavf")
        allocatable(node, "example.com/grown", 4)

"""Devices that pods hold stay theirs over restarts of kubelet and of the agent, whoever says so."""

from __future__ import annotations

import json

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.podresources import PodResources

PF = "0000:3b:00.0"
FIRST, LATER = "example.com/first", "example.com/later"
BEFORE = (pool("first", drivers=["iavf"]), pool("later", vendors=["8086"]))
AFTER = BEFORE[::-1]
"""Another pool comes first, and selects the same devices."""


def write_checkpoint(host: HostBuilder, resource: str, *ids: str) -> None:
    """Kubelet's own file, as it names devices that it has given."""
    entry = {
        "PodUID": "4f5c1f0e-0000-4000-8000-000000000001",
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": {"0": ids},
        "AllocResp": "",
    }
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {resource: ids}}
    path = host.roots.kubelet_checkpoint
    draft = path.with_name(".checkpoint-draft")
    draft.write_text(json.dumps({"Data": data, "Checksum": 1}))
    draft.rename(path)


def lists(kubelet: Kubelet, resource: str, *ids: str) -> None:
    kubelet.wait_for(lambda k: k.allocatable(resource) == ids, f"{ids} as {resource}")


def ever_listed(kubelet: Kubelet, resource: str) -> set[str]:
    return {d.id for name, devices in kubelet.lists if name == resource for d in devices}


def test_without_pod_resources_the_checkpoint_decides_what_is_held(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=3)
    held, *free = host.vfs(PF)
    write_checkpoint(host, FIRST, held)
    config.write(*AFTER)
    with AgentProcess(host.root, config.path):
        lists(kubelet, LATER, *free)
        lists(kubelet, FIRST, held)
    assert ever_listed(kubelet, LATER) == set(free)


def test_an_agent_that_was_killed_knows_its_allocations_by_its_own_record(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=3)
    held, *free = host.vfs(PF)
    config.write(*BEFORE)
    with AgentProcess(host.root, config.path) as agent:
        lists(kubelet, FIRST, held, *free)
        kubelet.allocate(FIRST, held)
        agent.process.kill()
        agent.process.wait()
    kubelet.lists.clear()
    config.write(*AFTER)
    with AgentProcess(host.root, config.path):
        lists(kubelet, LATER, *free)
        lists(kubelet, FIRST, held)
    assert ever_listed(kubelet, LATER) == set(free)


def test_a_restarted_kubelet_that_lists_no_pods_yet_takes_no_device_from_its_pod(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    """Nor does it so when the agent restarts meanwhile, and finds another configuration."""
    host.pf(PF, "ens1f0", vfs=3)
    held, *free = host.vfs(PF)
    config.write(*BEFORE)
    with PodResources(host.roots.kubelet) as pods:
        pods.holds("worker", "main", FIRST, held)
        write_checkpoint(host, FIRST, held)
        with AgentProcess(host.root, config.path):
            lists(kubelet, FIRST, held, *free)
            pods.reply.Clear()
            asked = pods.asked
            kubelet.restart()
            write_checkpoint(host, FIRST, held)  # a real kubelet keeps its own
            kubelet.wait_for(lambda _: pods.asked > asked, "a question")
            config.write(*AFTER)
            lists(kubelet, LATER, *free)
            lists(kubelet, FIRST, held)
        with AgentProcess(host.root, config.path):
            lists(kubelet, LATER, *free)
            lists(kubelet, FIRST, held)
    assert held not in ever_listed(kubelet, LATER)

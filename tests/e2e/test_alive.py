"""What changes while the agent runs reaches kubelet: functions, drivers, configuration, holders."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import attrs

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Device, Kubelet
from tests.support.podresources import PodResources
from tests.support.usage import descriptors

PF = "0000:3b:00.0"
NET = "example.com/net"
UNBOUND = attrs.evolve(E810.vf, driver=None)


def ids(kubelet: Kubelet, resource: str = NET) -> tuple[str, ...]:
    return kubelet.allocatable(resource)


def has(kubelet: Kubelet, count: int, resource: str = NET) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(resource)) == count, f"{count} of {resource}")


def lists_of(kubelet: Kubelet, resource: str = NET) -> list[tuple[Device, ...]]:
    return [devices for name, devices in kubelet.lists if name == resource]


def lists_exactly(made: tuple[str, ...], kubelet: Kubelet) -> bool:
    return kubelet.allocatable(NET) == made


def test_a_driver_that_is_bound_late_adds_its_vf_without_a_restart(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    late = host.vfs(PF)[5]
    host.set_driver(late, None)
    config.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, config.path):
        has(kubelet, 7)
        host.set_driver(late, "iavf")
        has(kubelet, 8)
    assert len(kubelet.registrations) == 1
    assert [len(devices) for devices in lists_of(kubelet)] == [7, 8]


def test_a_device_whose_driver_changes_moves_to_the_other_pool(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    moved = host.vfs(PF)[2]
    config.write(pool("net", drivers=["iavf"]), pool("dpdk", drivers=["vfio-pci"]))
    with AgentProcess(host.root, config.path):
        has(kubelet, 4)
        host.set_driver(moved, "vfio-pci")
        has(kubelet, 1, "example.com/dpdk")
        has(kubelet, 3)
    assert ids(kubelet, "example.com/dpdk") in ((), (moved,))


def test_vfs_created_after_the_start_cause_one_list_for_each_settled_state(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0")
    config.write(pool("net", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path) as agent:
        agent.wait_for("host.watching")
        assert kubelet.count(NET) == 0
        host.add_vfs(PF, 4)
        has(kubelet, 4)
        host.remove_vfs(PF)
        kubelet.wait_for(lambda k: lists_of(k)[-1] == ())
        host.add_vfs(PF, 8)
        has(kubelet, 8)
    sizes = [len(devices) for devices in lists_of(kubelet)]
    assert sizes[0] == 4
    assert sizes[-1] == 8
    grown = [b for a, b in itertools.pairwise(sizes) if b > a]
    assert grown == [8], "devices are added once the host is quiet, all at once"


def test_vfs_created_and_destroyed_fifty_times_are_listed_correctly(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    config.write(pool("net", pfNames=["ens1f0"]))
    with AgentProcess(host.root, config.path) as agent:
        agent.wait_for("host.watching")
        for number in range(50):
            host.remove_vfs(PF)
            kubelet.wait_for(lambda k: not k.allocatable(NET), f"none in round {number}")
            made = host.add_vfs(PF, 1 + number % 8)
            kubelet.wait_for(partial(lists_exactly, made), f"round {number}")
        assert descriptors(agent.process.pid) < 40


def test_a_config_map_swapped_200_times_leaves_unchanged_pools_alone(
    host: HostBuilder, tmp_path: Path, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    mounted = ConfigMap(tmp_path / "pcidp", "node-1")
    mounted.swap(pool("net", pfNames=["ens1f0#0-3"]), pool("odd", pfNames=["ens1f0#4"]))
    with AgentProcess(host.root, mounted.file) as agent:
        has(kubelet, 4)
        has(kubelet, 1, "example.com/odd")
        stream = kubelet.clients[NET]
        for number in range(200):
            last = 4 + number % 4
            mounted.swap(
                pool("net", pfNames=["ens1f0#0-3"]), pool("odd", pfNames=[f"ens1f0#4-{last}"])
            )
            has(kubelet, last - 3, "example.com/odd")
        assert kubelet.clients[NET] is stream
        assert not stream.ended
        assert len(stream.lists) == 1
        assert kubelet.count(NET) == kubelet.count("example.com/odd") == 1
        assert not agent.events("config.rejected")


def test_another_nodes_key_of_the_config_map_changes_nothing(
    host: HostBuilder, tmp_path: Path, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    mounted = ConfigMap(tmp_path / "pcidp", "node-1")
    mounted.swap(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, mounted.folder, env={"NODE_NAME": "node-1"}) as agent:
        has(kubelet, 2)
        mounted.swap(pool("net", drivers=["iavf"]), others={"node-2": "{}"})
        mounted.swap(pool("net", pfNames=["ens1f0#1"]), others={"node-2": "{}"})
        has(kubelet, 1)
        assert len(agent.events("config.reloaded", at_least=1)) == 1


def test_after_an_invalid_edit_the_last_valid_configuration_stays_and_the_error_is_logged(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, config.path) as agent:
        has(kubelet, 2)
        config.path.write_text('{"resourceList": [{"resourceName": "net",}]}')
        assert "trailing comma" in agent.wait_for("config.rejected")["reason"]
        assert len(ids(kubelet)) == 2
        config.write(pool("net", pfNames=["ens1f0#1"]), pool("fau lty"))
        agent.wait_for("config.rejected", lambda event: "trailing" not in event["reason"])
        assert len(ids(kubelet)) == 2
        config.write(pool("net", pfNames=["ens1f0#0"]))
        has(kubelet, 1)


def test_a_removed_pool_sends_an_empty_list_and_its_socket_is_removed(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", pfNames=["ens1f0#0-1"]), pool("gone", pfNames=["ens1f0#2-3"]))
    with AgentProcess(host.root, config.path):
        has(kubelet, 2)
        has(kubelet, 2, "example.com/gone")
        endpoint = kubelet.clients["example.com/gone"]
        config.write(pool("net", pfNames=["ens1f0#0-1"]))
        kubelet.wait_for(lambda _: endpoint.ended, "the stream to end")
        assert endpoint.lists[-1] == ()
        assert not endpoint.path.exists()
        assert len(ids(kubelet)) == 2


def test_a_directory_that_is_removed_and_recreated_is_watched(
    host: HostBuilder, tmp_path: Path, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    folder = tmp_path / "pcidp"
    folder.mkdir()
    file = ConfigFile(folder / "config.json")
    file.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, file.path) as agent:
        has(kubelet, 2)
        shutil.rmtree(folder)
        agent.wait_for("config.rejected")
        folder.mkdir()
        file.write(pool("net", pfNames=["ens1f0#1"]))
        has(kubelet, 1)


def test_a_restarted_agent_keeps_the_devices_that_pods_hold(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    held = host.vfs(PF)[1]
    host.rdma(held, "mlx5_7")
    config.write(pool("net", linkTypes=["ether"]))
    with PodResources(host.roots.kubelet) as pods:
        pods.holds("worker", "main", NET, held)
        for name in host.netdevs(held):
            host.remove_netdev(name)
        with AgentProcess(host.root, config.path):
            has(kubelet, 4)
            assert held in ids(kubelet)


def test_a_held_device_that_disappears_stays_in_the_list_as_unhealthy(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    held = host.vfs(PF)[1]
    config.write(pool("net", pfNames=["ens1f0"]))
    with PodResources(host.roots.kubelet) as pods:
        pods.holds("worker", "main", NET, held)
        with AgentProcess(host.root, config.path) as agent:
            has(kubelet, 4)
            host.remove_vfs(PF)
            last = (Device(held, healthy=False, numa_nodes=(0,)),)
            kubelet.wait_for(lambda k: lists_of(k)[-1] == last)
            assert agent.wait_for("device.unhealthy")["cause"] == "device gone"


def test_a_vf_joins_once_bound_and_a_held_one_that_is_unbound_is_unhealthy(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    held, late = host.vfs(PF)
    host.set_driver(late, None)
    config.write(pool("net", pfNames=["ens1f0"]))
    with PodResources(host.roots.kubelet) as pods:
        pods.holds("worker", "main", NET, held)
        with AgentProcess(host.root, config.path) as agent:
            kubelet.wait_for(lambda k: ids(k) == (held,))
            host.set_driver(late, "iavf")
            kubelet.wait_for(lambda k: ids(k) == (held, late))
            host.set_driver(held, None)
            kubelet.wait_for(lambda k: ids(k) == (late,))
            assert agent.wait_for("device.unhealthy")["cause"] == "driver"
            assert [d.id for d in lists_of(kubelet)[-1]] == [held, late]


def test_the_second_agent_of_a_node_waits_and_takes_over(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, config.path) as first:
        has(kubelet, 2)
        with AgentProcess(host.root, config.path) as second:
            assert str(first.process.pid) in second.wait_for("lock.waiting")["holder"]
            assert kubelet.count(NET) == 1
            first.process.kill()
            second.wait_for("plugin.registered")
            has(kubelet, 2)
            assert kubelet.count(NET) == 2


def test_the_second_agent_of_a_node_serves_the_present_configuration_when_it_takes_over(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("old", drivers=["iavf"]))
    with AgentProcess(host.root, config.path) as first:
        has(kubelet, 2, "example.com/old")
        with AgentProcess(host.root, config.path) as second:
            second.wait_for("lock.waiting")
            # Stopped, so that it does not release the resource before the other has read the edit.
            first.process.send_signal(signal.SIGSTOP)
            config.write(pool("net", drivers=["iavf"]))
            second.process.send_signal(signal.SIGHUP)
            has(kubelet, 2)
            first.process.kill()
            assert kubelet.count("example.com/old") == 1
            assert second.stop() == 0


def test_an_idle_agent_sleeps_and_logs_nothing(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    """Measured over some seconds here; tests/bench measures a minute."""
    for number in range(32):
        host.pf(f"0000:{0x10 + number:02x}:00.0", f"p{number}", vfs=2)
    config.write(*(pool(f"net{n}", pfNames=[f"p{n}"]) for n in range(32)))
    with AgentProcess(host.root, config.path) as agent:
        for number in range(32):
            has(kubelet, 2, f"example.com/net{number}")
        agent.wait_for("host.watching")
        time.sleep(3)  # the last tasks of the start
        lines, switches = len(agent.raw), voluntary_switches(agent.process.pid)
        time.sleep(10)
        assert len(agent.raw) == lines
        # Pod-resources, which is missing here, is asked for every ten seconds, in a thread.
        assert voluntary_switches(agent.process.pid) - switches <= 20


def voluntary_switches(pid: int) -> int:
    """How often the threads of a process went to sleep so far: once for each wake-up."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text().splitlines()
        total += next(int(s.split()[1]) for s in status if s.startswith("voluntary"))
    return total


class ConfigMap:
    """A mounted ConfigMap, swapped as kubelet does: new folder, link renamed over ``..data``."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.file = folder / key
        self._number = 0
        folder.mkdir()

    def swap(self, *pools: dict[str, object], others: dict[str, str] | None = None) -> None:
        """Replace all keys at once."""
        self._number += 1
        old = self.folder / f"..gen{self._number - 1}"
        new = self.folder / f"..gen{self._number}"
        new.mkdir()
        (new / self.file.name).write_text(json.dumps({"resourceList": list(pools)}))
        for key, content in (others or {}).items():
            (new / key).write_text(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(self.folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to(f"..data/{self.file.name}")
        shutil.rmtree(old, ignore_errors=True)

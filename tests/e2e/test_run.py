"""The main job as a process: discover, pool, serve, register, allocate, stop."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
VFIO = VfHardware(device="1889", driver="vfio-pci", netdevs=False)


def healthy(kubelet: Kubelet, resource: str, count: int) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(resource)) == count, f"{count} of {resource}")


@pytest.mark.parametrize("way", ["legacy", "watcher"])
def test_the_agent_registers_lists_and_allocates_by_either_method(
    host: HostBuilder, config: ConfigFile, way: str
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", drivers=["iavf"]))
    with (
        Kubelet(host.roots.kubelet, watcher=way == "watcher") as kubelet,
        AgentProcess(host.root, config.path) as agent,
    ):
        healthy(kubelet, "example.com/net", 4)
        answer = kubelet.allocate("example.com/net", "0000:3b:01.2", "0000:3b:01.0")
        assert agent.wait_for("plugin.registered")["method"] == way
        assert agent.stop() == 0
    assert answer.envs["PCIDEVICE_EXAMPLE_COM_NET"] == "0000:3b:01.0,0000:3b:01.2"
    info = json.loads(answer.envs["PCIDEVICE_EXAMPLE_COM_NET_INFO"])
    assert info["0000:3b:01.2"] == {"generic": {"deviceID": "0000:3b:01.2"}}
    assert [r.way for r in kubelet.registrations] == [way]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_to_end_removes_the_sockets_and_keeps_the_device_info_files(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, number: signal.Signals
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, config.path) as agent:
        healthy(kubelet, "example.com/net", 2)
        kubelet.allocate("example.com/net", "0000:3b:01.1")
        agent.process.send_signal(number)
        assert agent.process.wait(10) == 0
    left = sorted(p.name for p in host.roots.device_plugins.glob("*.sock"))
    assert left == ["kubelet.sock"]
    file = host.roots.device_info / "example.com-net-0000:3b:01.1-device.json"
    assert file.stat().st_mode & 0o777 == 0o444
    assert json.loads(file.read_text()) == {
        "type": "pci",
        "version": "1.1.0",
        "pci": {"pci-address": "0000:3b:01.1", "pf-pci-address": PF},
    }


def test_vfio_devices_come_with_their_group_and_survive_in_env_and_node(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0")
    host.add_vfs(PF, 2, VFIO)
    config.write(pool("dpdk", drivers=["vfio-pci"], additionalInfo={"*": {"zone": "a"}}))
    with AgentProcess(host.root, config.path):
        healthy(kubelet, "example.com/dpdk", 2)
        answer = kubelet.allocate("example.com/dpdk", "0000:3b:01.0")
    group = (host.folder("0000:3b:01.0") / "iommu_group").resolve().name
    assert [(d.container_path, d.host_path, d.permissions) for d in answer.devices] == [
        ("/dev/vfio/vfio", "/dev/vfio/vfio", "rw"),
        (f"/dev/vfio/{group}", f"/dev/vfio/{group}", "rw"),
    ]
    info = json.loads(answer.envs["PCIDEVICE_EXAMPLE_COM_DPDK_INFO"])["0000:3b:01.0"]
    assert info["vfio"] == {"mount": "/dev/vfio/vfio", "dev-mount": f"/dev/vfio/{group}"}
    assert info["extra"] == {"zone": "a"}


def test_the_go_plugins_arguments_start_the_agent(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    config.path.write_text('{"resourceList":[{"resourceName":"n","selectors":{}}]}')
    arguments = ("--log-level=10", "-resource-prefix", "acme.org", "--log-dir=/var/log/x")
    with AgentProcess(host.root, config.path, *arguments) as agent:
        healthy(kubelet, "acme.org/n", 1)
        assert agent.wait_for("log.dir_unused")


def test_the_agent_waits_for_an_absent_kubelet(host: HostBuilder, config: ConfigFile) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]))
    with AgentProcess(host.root, config.path) as agent:
        agent.wait_for("plugin.registration_failed")
        with Kubelet(host.roots.kubelet) as kubelet:
            healthy(kubelet, "example.com/net", 2)
            assert len(kubelet.registrations) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00\x00", "not"),
        (b'{"resourceList": [{"resourceName": "a"}]}', "nothing in"),
    ],
    ids=["empty", "binary", "refused"],
)
def test_a_configuration_without_a_usable_pool_has_exit_code_2_and_no_traceback(
    host: HostBuilder, config: ConfigFile, content: bytes, words: str
) -> None:
    config.path.write_bytes(content)
    with AgentProcess(host.root, config.path) as agent:
        assert agent.process.wait(20) == 2
    text = "".join(agent.raw)
    assert words in text
    assert "Traceback" not in text
    assert [json.loads(line)["event"] for line in agent.raw][-1] == "agent.start_failed"


@pytest.mark.parametrize("kind", ["missing", "directory without a key", "fifo"])
def test_a_config_path_that_is_not_a_file_has_a_message(
    host: HostBuilder, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.mkdir()
    with AgentProcess(host.root, path) as agent:
        if kind == "directory without a key":
            agent.wait_for("config.idle")
            assert agent.stop() == 0
        else:
            assert agent.process.wait(20) == 2
    assert "Traceback" not in "".join(agent.raw)


def test_pools_with_errors_are_refused_and_the_others_are_served(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(pool("good", drivers=["iavf"]), {"resourceName": "bad"})
    with AgentProcess(host.root, config.path) as agent:
        healthy(kubelet, "example.com/good", 2)
        assert agent.wait_for("config.pool_refused")["resource"] == "intel.com/bad"


def test_a_pool_with_one_bad_value_is_served_and_the_value_is_reported_with_its_place(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(
        pool("net", pfNames=["ENS1F0#0-1,", "ens9#x"], drivers=["", "iavf"]),
        pool("nothing", pfNames=["ens9#x"]),
    )
    with AgentProcess(host.root, config.path) as agent:
        healthy(kubelet, "example.com/net", 2)
        assert agent.wait_for("config.pool_refused")["resource"] == "example.com/nothing"
        warnings = agent.events("config.warning", at_least=3)
    assert [str(w["path"]).removeprefix("$.resourceList[0].selectors.") for w in warnings] == [
        *("pfNames[0]", "pfNames[1]", "drivers[0]")
    ]
    assert "an index is missing, so this part is not read" in str(warnings[0]["message"])
    assert kubelet.count("example.com/nothing") == 0


def test_a_pool_by_link_type_has_its_devices_again_after_a_restart_while_pods_have_the_netdevs(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    host.pf("0000:5e:00.0", "ens2f0")
    host.add_vfs("0000:5e:00.0", 2, VFIO)
    config.write(pool("net", linkTypes=["ether"]))
    with AgentProcess(host.root, config.path) as agent:
        healthy(kubelet, "example.com/net", 4)
        assert agent.stop() == 0
    for vf in host.vfs(PF):
        for name in host.netdevs(vf):
            host.remove_netdev(name)
    before = kubelet.count("example.com/net")
    with AgentProcess(host.root, config.path):
        kubelet.wait_for(lambda k: k.count("example.com/net") > before, "another registration")
        healthy(kubelet, "example.com/net", 4)


def test_an_empty_pool_is_registered_only_with_advertise_empty(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    config.write(
        pool("none", drivers=["mlx5_core"]),
        pool("shown", drivers=["mlx5_core"], advertiseEmpty=True),
        pool("net", drivers=["iavf"]),
    )
    with AgentProcess(host.root, config.path):
        healthy(kubelet, "example.com/net", 2)
        kubelet.wait_for(lambda k: k.count("example.com/shown"), "the empty pool")
    assert kubelet.count("example.com/none") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_sigterm_stops_the_agent_at_every_stage(
    host: HostBuilder, config: ConfigFile, number: signal.Signals
) -> None:
    config.write()
    with AgentProcess(host.root, config.path) as agent:
        agent.wait_for("agent.starting")
        agent.process.send_signal(number)
        assert agent.process.wait(10) == 0

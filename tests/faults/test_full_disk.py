"""Full and read-only file systems below everything that the agent writes: it lives and recovers.

Each folder is a small file system of its own, filled to the last byte and inode, or remounted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Device, Kubelet

pytestmark = pytest.mark.usefixtures("own_mounts")

PF = "0000:3b:00.0"
NET = "example.com/net"
Spoilt = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def small(folder: Path) -> Iterator[Path]:
    """A file system of 64 KiB at ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    options = "size=64k,nr_inodes=24"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Not a byte and not an inode is left inside."""
    fillers = [folder / f"filler{number}" for number in range(32)]
    with suppress(OSError):
        fillers[0].write_bytes(bytes(2**17))
    with suppress(OSError):
        for filler in fillers[1:]:
            filler.touch()
    try:
        yield
    finally:
        for filler in fillers:
            filler.unlink(missing_ok=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be written inside."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


@pytest.fixture(params=[full, read_only])
def spoilt(request: pytest.FixtureRequest) -> Spoilt:
    """What is wrong with the file system."""
    made: Spoilt = request.param
    return made


def word(spoilt: Spoilt) -> str:
    """What the kernel says of it."""
    return "No space left on device" if spoilt is full else "Read-only file system"


def has(kubelet: Kubelet, count: int) -> None:
    kubelet.wait_for(lambda k: len(k.allocatable(NET)) == count, f"{count} devices")


def healthy(devices: tuple[Device, ...]) -> set[str]:
    """Those of a list that pods may get."""
    return {device.id for device in devices if device.healthy}


def test_without_its_device_info_file_a_pod_fails_with_the_reason_and_the_next_one_starts(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, spoilt: Spoilt
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", drivers=["iavf"]))
    device = host.vfs(PF)[0]
    with (
        small(host.roots.device_info) as folder,
        AgentProcess(host.root, config.path) as agent,
    ):
        has(kubelet, 4)
        with spoilt(folder), pytest.raises(grpc.RpcError) as refused:
            kubelet.allocate(NET, device)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert word(spoilt) in refused.value.details()
        assert FIXES[spoilt] in agent.wait_for("allocation.refused")["error"]
        kubelet.allocate(NET, device)
        written = [p.name for p in folder.glob("*-device.json")]
        assert written == [f"example.com-net-{device}-device.json"]
        assert agent.stop() == 0


def test_without_its_cdi_entry_a_device_is_not_offered_until_it_can_be_written(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, spoilt: Spoilt
) -> None:
    host.pf(PF, "ens1f0")
    host.add_vfs(PF, 4, E810.vf.vfio)
    config.write(pool("net", drivers=["vfio-pci"]))
    with small(host.roots.cdi) as folder:
        with (
            spoilt(folder),
            AgentProcess(host.root, config.path, "--use-cdi") as agent,
        ):
            said = agent.wait_for("cdi.failed")["error"]
            assert word(spoilt) in said
            assert FIXES[spoilt] in said
            agent.wait_for("plugin.registered")
            kubelet.wait_for(lambda k: any(name == NET for name, _ in k.lists), "a list")
            assert not kubelet.allocatable(NET)
            host.set_driver(host.vfs(PF)[3], None)
            agent.wait_for("device.removed")
            assert len([e for e in agent.events("cdi.failed", at_least=1) if e["resource"]]) == 1
            assert agent.stop() == 0
        with AgentProcess(host.root, config.path, "--use-cdi") as agent:
            has(kubelet, 3)
            *standing, late = host.vfs(PF)
            before = len(kubelet.lists)
            with spoilt(folder):
                host.set_driver(late, "vfio-pci")
                kubelet.wait_for(lambda k: len(k.lists[-1][1]) == 4, "all that there are")
                assert kubelet.allocatable(NET) == tuple(standing)
                assert FIXES[spoilt] in agent.wait_for("cdi.failed")["error"]
            has(kubelet, 4)
            assert {len(k) for _, k in kubelet.lists[before:]} == {4}
            assert all(set(standing) <= healthy(k) for _, k in kubelet.lists[before:])
            assert agent.stop() == 0
        assert [p.suffix for p in folder.iterdir()] == [".json"]


def test_on_a_full_disk_the_agent_logs_that_once_and_registers_its_sockets_later(
    host: HostBuilder, config: ConfigFile, spoilt: Spoilt
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", drivers=["iavf"]))
    with (
        small(host.roots.device_plugins) as folder,
        Kubelet(host.roots.kubelet) as kubelet,
        ExitStack() as spoiling,
    ):
        spoiling.enter_context(spoilt(folder))
        with AgentProcess(host.root, config.path) as agent:
            assert word(spoilt) in agent.wait_for("plugin.registration_failed")["error"]
            assert word(spoilt) in agent.wait_for("lock.unavailable")["error"]
            spoiling.close()
            has(kubelet, 4)
            assert len(agent.events("plugin.registration_failed", at_least=1)) == 1
            sockets = [p.name for p in folder.iterdir() if p.is_socket()]
            assert len(sockets) == 2
            assert not [name for name in sockets if name.startswith(".")]
            assert agent.stop() == 0


def test_on_a_full_disk_the_agent_serves_and_creates_its_own_socket_later(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, spoilt: Spoilt
) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", drivers=["iavf"]))
    with small(host.roots.run) as folder, ExitStack() as spoiling:
        spoiling.enter_context(spoilt(folder))
        with AgentProcess(host.root, config.path, "--log-level", "debug") as agent:
            said = agent.wait_for("admin.unavailable")["error"]
            assert word(spoilt) in said
            assert FIXES[spoilt] in said
            has(kubelet, 4)
            spoiling.close()
            agent.wait_for("admin.listening")
            assert [p.name for p in folder.iterdir()] == ["agent.sock"]
            assert agent.stop() == 0


FIXES: dict[Spoilt, str] = {full: "free some space", read_only: "mount it writable"}
"""What the agent says to do about it."""

"""The agent killed at any moment leaves whole files, and the next one puts everything right."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import grpc
import pytest

from agent.export.given import record_name
from agent.inotify import DirectoryWatch
from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess, LogLine
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.podresources import PodResources

PF = "0000:3b:00.0"
DPDK_PF = "0000:5e:00.0"
NET = "example.com/net"
DPDK = "example.com/dpdk"
VFS = 4
KILLS = 200
LANES = 4
SEED = 1973
SPEC = "sriov-dp-example.com-net-pci-dpdk.json"
START_TAKES_S = 0.6
"""About from exec to the first lists; kills of a start fall within."""


class Lane:
    """One node whose agent is killed again and again; a context manager."""

    def __init__(self, number: int) -> None:
        self.dice = random.Random(SEED + number)  # noqa: S311 - to be repeated, not to be secret
        self._way = ("legacy", "watcher")[number % 2]
        self._parts = ExitStack()
        self.verified = 0

    def __enter__(self) -> Self:
        enter = self._parts.enter_context
        folder = Path(enter(TemporaryDirectory(prefix="kill-")))
        self.host = HostBuilder(folder)
        self.host.pf(PF, "ens1f0", vfs=VFS)
        self.host.pf(DPDK_PF, "ens2f0")
        self.dpdk = self.host.add_vfs(DPDK_PF, VFS, E810.vf.vfio)
        self.net = self.host.vfs(PF)
        self.config = ConfigFile(folder / "config.json")
        self.config.write(pool("net", pfNames=["ens1f0"]), pool("dpdk", drivers=["vfio-pci"]))
        kubelet_dir = self.host.roots.kubelet
        self.host.roots.device_plugins.mkdir(parents=True)
        self.kubelet = enter(Kubelet(kubelet_dir, watcher=self._way == "watcher"))
        self.pods = enter(PodResources(kubelet_dir))
        self.held_files: dict[Path, bytes] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def agent(self, *wrapper: str) -> AgentProcess:
        arguments = ("--use-cdi", "--registration", self._way)
        return AgentProcess(self.host.root, self.config.path, *arguments, wrapper=wrapper)

    def give_to_a_pod(self) -> None:
        """A pod holds one device of each pool from now on."""
        with self.agent() as agent:
            self.verify(agent)
            for resource, device in ((NET, self.net[0]), (DPDK, self.dpdk[0])):
                self.kubelet.allocate(resource, device)
                self.pods.holds("worker", "main", resource, device)
            info = self.host.roots.device_info
            self.held_files = {p: p.read_bytes() for p in info.glob("*-device.json")}
        assert len(self.held_files) == 2

    def kill_in_the_start(self) -> None:
        with self.agent() as agent:
            self._wait(START_TAKES_S)
            agent.process.kill()
            agent.process.wait()
        self.check_files()

    def kill_at_work(self) -> None:
        """Kill while devices are handed out and CDI specs are rewritten."""
        with self.agent() as agent:
            self.verify(agent)
            stop = threading.Event()
            with ThreadPoolExecutor(1) as working:
                work = working.submit(self._keep_busy, stop)
                self._wait(0.1)
                agent.process.kill()
                agent.process.wait()
                stop.set()
                work.result()
        self.check_files()
        self.host.set_driver(self.dpdk[1], "vfio-pci")

    def _wait(self, at_most_s: float) -> None:
        threading.Event().wait(self.dice.uniform(0, at_most_s))

    def _keep_busy(self, stop: threading.Event) -> None:
        info = self.host.roots.device_info
        driver: str | None = None
        while not stop.is_set():
            for path in set(info.iterdir()) - self.held_files.keys():
                path.unlink(missing_ok=True)  # or there is nothing to write
            self.host.set_driver(self.dpdk[1], driver)
            driver = None if driver else "vfio-pci"
            for device in self.net[1:]:
                with suppress(grpc.RpcError, KeyError, ValueError):  # the agent was killed
                    self.kubelet.allocate(NET, device)

    def check_files(self) -> None:
        """All that others read is whole, and what the pod needs is as it was."""
        roots = self.host.roots
        for path in (*roots.device_info.glob("*.json"), *roots.cdi.glob("*.json")):
            assert json.loads(path.read_text()), path
        for path, content in self.held_files.items():
            assert path.read_bytes() == content
        if self.held_files:
            assert self.dpdk[0] in self.cdi_devices()

    def cdi_devices(self) -> set[str]:
        (spec,) = self.host.roots.cdi.glob("*.json")
        return {device["name"] for device in json.loads(spec.read_text())["devices"]}

    def verify(self, agent: AgentProcess) -> None:
        """The next agent registers all, and everything is as if nothing had happened."""
        for resource, devices in ((NET, self.net), (DPDK, self.dpdk)):
            agent.wait_for("plugin.registered", partial(is_of, resource))
            self.kubelet.wait_for(partial(may_hand_out, resource, devices), resource)
        self.check_files()
        assert self.cdi_devices() == set(self.dpdk)
        drafts = [p.name for p in self.host.roots.cdi.iterdir() if p.suffix == ".tmp"]
        assert drafts == []
        self.verified += 1


def is_of(resource: str, line: LogLine) -> bool:
    return bool(line["resource"] == resource)


def may_hand_out(resource: str, devices: tuple[str, ...], kubelet: Kubelet) -> bool:
    return kubelet.allocatable(resource) == devices


def run_lane(number: int) -> int:
    with Lane(number) as lane:
        lane.give_to_a_pod()
        for kill in range(KILLS // LANES):
            lane.kill_at_work() if kill % 2 else lane.kill_in_the_start()
        with lane.agent() as agent:
            lane.verify(agent)
            lane.kubelet.allocate(NET, lane.net[1])
            left = [p.name for p in lane.host.roots.device_info.iterdir() if p.suffix == ".tmp"]
            assert left == []
            assert agent.stop() == 0
        sockets = [p.name for p in lane.host.roots.device_plugins.iterdir() if p.is_socket()]
        sockets += [p.name for p in lane.host.roots.plugins_registry.glob("*.sock")]
        assert sockets == ["kubelet.sock"]
        return lane.verified


def test_after_200_kills_at_random_moments_all_files_are_complete_and_every_restart_registers() -> (
    None
):
    """Half of them fall into the start, half into work; seeded, in four nodes side by side."""
    with ThreadPoolExecutor(LANES) as lanes:
        verified = list(lanes.map(run_lane, range(LANES)))
    assert verified == [KILLS // LANES // 2 + 2] * LANES


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


KILL_AT_RENAME = ("-f", "-e", "trace=rename", "-e", "inject=rename:signal=SIGKILL")


@contextmanager
def killed_at_its_next_rename(agent: AgentProcess) -> Iterator[None]:
    """Inside, the kernel kills the agent as it enters rename(2); ends once it is dead."""
    pid = agent.process.pid
    command = ["strace", *KILL_AT_RENAME, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        assert "attached" in tracer.stderr.readline()
        yield
        agent.process.wait(AgentProcess.patience_s)
        tracer.communicate()


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def assert_kept(path: Path, before: bytes | None) -> None:
    """The old file, or none; and a draft that shows when the kill came."""
    assert content(path) == before
    assert [p.suffix for p in path.parent.iterdir() if p.name.startswith(".")] == [".tmp"]


@needs_strace
def test_a_kill_between_write_and_rename_of_the_first_cdi_spec_leaves_none() -> None:
    with Lane(0) as lane:
        spec = lane.host.roots.cdi / SPEC
        with lane.agent("strace", "-o", "/dev/null", *KILL_AT_RENAME) as agent:
            agent.process.wait(AgentProcess.patience_s)
        assert_kept(spec, None)
        with lane.agent() as agent:
            lane.verify(agent)
        assert [p.name for p in spec.parent.iterdir()] == [SPEC]


@needs_strace
def test_a_kill_between_write_and_rename_of_a_changed_cdi_spec_leaves_the_old_one() -> None:
    with Lane(0) as lane:
        spec = lane.host.roots.cdi / SPEC
        with lane.agent() as agent:
            lane.verify(agent)
            wait_for_admin(lane)
            before = content(spec)
            with killed_at_its_next_rename(agent):
                lane.host.remove_vfs(PF)
                lane.host.add_vfs(PF, VFS, E810.vf.vfio)
        assert_kept(spec, before)
        lane.host.remove_vfs(PF)
        lane.host.add_vfs(PF, VFS)
        with lane.agent() as agent:
            lane.verify(agent)
        assert [p.name for p in spec.parent.iterdir()] == [SPEC]


@needs_strace
@pytest.mark.parametrize("before", [None, b'{"type": "pci"}'])
def test_a_kill_between_write_and_rename_of_a_device_info_file_leaves_the_old_one(
    before: bytes | None,
) -> None:
    with Lane(0) as lane:
        file = lane.host.roots.device_info / f"example.com-net-{lane.net[1]}-device.json"
        file.parent.mkdir(parents=True)
        if before:
            file.write_bytes(before)
        with lane.agent() as agent:
            lane.verify(agent)
            wait_for_admin(lane)
            with killed_at_its_next_rename(agent), pytest.raises(grpc.RpcError):
                lane.kubelet.allocate(NET, lane.net[1])
        assert_kept(file, before)
        with lane.agent() as agent:
            lane.verify(agent)
            lane.kubelet.allocate(NET, lane.net[1])
            assert json.loads(file.read_text())["pci"]["pci-address"] == lane.net[1]
            assert sorted(p.name for p in file.parent.iterdir()) == [record_name(NET), file.name]


def wait_for_admin(lane: Lane) -> None:
    """Wait until the agent has made its own socket, which takes a rename too."""
    asyncio.run(until_there(lane.host.roots.run / "agent.sock"))


async def until_there(path: Path) -> None:
    async with asyncio.timeout(AgentProcess.patience_s):
        with DirectoryWatch((path.parent,)) as watch:
            if path.exists():  # noqa: ASYNC240 - in memory, and nobody else waits
                return
            async for _ in watch:
                if path.exists():  # noqa: ASYNC240 - in memory, and nobody else waits
                    return

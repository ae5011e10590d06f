"""One node whose agent, kubelet and clock run in one loop: what the model acts on and looks at."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import looptime

from agent.config.load import load_config
from agent.config.schema import Config
from agent.daemon import Daemon
from agent.discovery.monitor import Monitor
from agent.discovery.scan import scan
from agent.health.outlook import look
from agent.host.layout import HostBuilder
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.options import RunOptions
from agent.pools.assign import assign
from agent.roots import Roots
from tests.model.kubelet import Kubelet, Seen

T = TypeVar("T")

PREFIX = "example.com"
SETTLE_S = 150.3
"""Longer than any back-off of kubelet's or the agent's own."""


class Loop(
    looptime.LoopTimeEventLoop,  # type: ignore[misc] # it ships no types
    asyncio.SelectorEventLoop,
):
    """Virtual time: nobody waits who has nothing to wait for, and threads' work is done at once.

    Unix sockets and inotify within one process are ready as soon as the other end has acted, so
    time only moves when nothing else can.
    """

    def run_in_executor(  # type: ignore[override]
        self,
        executor: object,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401
    ) -> asyncio.Future[T]:
        """Do the work here and now."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller's to handle
            done.set_exception(error)
        return done


async def _at_once(work: Callable[[], Snapshot]) -> Snapshot:
    """Scan in the loop, in no time."""
    return work()


def pool(name: str, *drivers: str, **keys: object) -> dict[str, object]:
    """A pool of the functions that are bound to one of the drivers."""
    return {"resourceName": name, "selectors": {"drivers": list(drivers)}, **keys}


def file_of(*pools: dict[str, object]) -> bytes:
    """A configuration file."""
    return json.dumps({"resourceList": pools}).encode()


def config_of(data: bytes | None) -> Config | None:
    """What the agent puts in force of a file; None for one that it must not use."""
    if data is None:
        return None
    loaded = load_config(data, source="config.json", default_prefix=PREFIX)
    return None if loaded.errors else loaded.config


class ConfigFile:
    """The configuration as an editor, or as kubelet's volume of a ConfigMap, writes it."""

    def __init__(self, folder: Path, *, is_config_map: bool) -> None:
        self.path = folder / "config.json"
        self.is_config_map = is_config_map
        self._versions = 0
        if is_config_map:
            self.path.symlink_to("..data/config.json")

    def write(self, data: bytes | None) -> None:
        """Give the file this content; None takes it away."""
        if self.is_config_map:
            self._swap(data)
        elif data is None:
            self.path.unlink(missing_ok=True)
        else:
            self.path.write_bytes(data)

    def _swap(self, data: bytes | None) -> None:
        self._versions += 1
        folder = self.path.parent
        version = folder / f"..{self._versions}"
        version.mkdir()
        if data is not None:
            (version / "config.json").write_bytes(data)
        (folder / "..data_tmp").symlink_to(version.name)
        (folder / "..data_tmp").rename(folder / "..data")
        shutil.rmtree(folder / f"..{self._versions - 1}", ignore_errors=True)


class Node:
    """The host, its kubelet, its agent; a loop in which time passes only when asked to."""

    def __init__(self, *, is_config_map: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="model-"))
        self.host = HostBuilder(self.folder / "h")
        self.roots: Roots = self.host.roots
        (self.folder / "c").mkdir()
        self.config = ConfigFile(self.folder / "c", is_config_map=is_config_map)
        self.kubelet = Kubelet(self.roots)
        self.runner = asyncio.Runner(loop_factory=Loop)
        self.daemon: Daemon
        self.task: asyncio.Task[None] | None = None
        self._stop: asyncio.Event

    def run(self, work: Any) -> Any:  # noqa: ANN401 - whatever the work gives
        """Let the loop run until ``work`` is done."""
        outcome = self.runner.run(work)
        if self.task is not None and self.task.done():
            self.task.result()
            raise AssertionError("the agent ended by itself")
        return outcome

    def pass_time(self, seconds: float) -> None:
        """Let time pass for everyone."""
        self.run(asyncio.sleep(seconds))

    def start_agent(self) -> None:
        """Start the agent as ``sriov-agent run`` does."""
        options = RunOptions(
            roots=self.roots,
            config_file=self.config.path,
            resource_prefix=PREFIX,
            cdi="field",
            netlink=False,
        )
        self.daemon = Daemon(options)
        self.daemon.monitor = Monitor(self.daemon._scan, self.daemon.bus, _at_once)

        async def start() -> None:
            self._stop = asyncio.Event()
            self.task = asyncio.create_task(self._live(self.daemon, self._stop), name="agent")

        self.run(start())

    @staticmethod
    async def _live(daemon: Daemon, stop: asyncio.Event) -> None:
        with daemon.services:
            await daemon.run(stop)

    def stop_agent(self) -> None:
        """Ask the agent to end, and see it end."""
        task, self.task = self.task, None
        assert task is not None

        async def stop() -> None:
            self._stop.set()
            await task

        self.run(stop())

    def close(self) -> None:
        """End everything."""
        if self.task is not None:
            self.stop_agent()
        self.run(self.kubelet.die())
        self.runner.close()
        asyncio.set_event_loop(None)
        shutil.rmtree(self.folder, ignore_errors=True)

    # What to compare

    def truth(self, config: Config) -> dict[str, Seen]:
        """What kubelet should have of each pool, worked out anew from the host as it is."""
        pools = assign(scan(self.roots), config)
        outlooks = (look(None, p, pools, Links(), 0.0, {}) for p in pools.pools)
        offers = (outlook.offer() for outlook in outlooks)
        return {o.resource: tuple((d.id, d.healthy) for d in o.devices) for o in offers}

    def sockets(self) -> list[str]:
        """Every entry of kubelet's folders that a plugin may have made."""
        found: list[str] = []
        for folder in (self.roots.device_plugins, self.roots.plugins_registry):
            with suppress(FileNotFoundError):
                found += [str(p) for p in folder.iterdir() if p.is_socket()]
        return sorted(set(found) - {str(self.roots.kubelet_socket)})

    def tasks(self) -> Counter[str]:
        """What the agent has running, by the name of what runs."""
        loop = self.runner.get_loop()
        mine = asyncio.all_tasks(loop) - self.kubelet.tasks
        return Counter(_name_of(task) for task in mine)

    @staticmethod
    def open_files() -> Counter[str]:
        """The process's descriptors by kind."""
        found: Counter[str] = Counter()
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                found[os.readlink(f"/proc/self/fd/{number}").partition(":")[0]] += 1
        return found


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", repr(task.get_coro()))

"""One node whose agent, kubelet and clock run in one loop: what the model acts on and looks at."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import looptime

from agent import blocking
from agent.config.load import load_config
from agent.config.schema import Config
from agent.daemon import Startup
from agent.model.device import Device
from agent.options import RunOptions
from agent.roots import Roots
from agent.transport.unix_socket import socket_path, socket_token
from tests.model.kubelet import Kubelet, Mood
from tests.model.pods import AGENT_POD, NAMESPACE, Pods
from tests.model.watcher import watch
from tests.support.host_builder import HostBuilder

T = TypeVar("T")

PREFIX = "example.com"
STOP_S = 5.0
"""Within this the agent ends, though kubelet may not read what it is told."""
EDIT_S = 0.2
"""How long an edit of the configuration must stay to be noticed for certain."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - files that nobody keeps
BUSY_TURNS = 20_000
"""More turns of the loop than anything takes in one instant."""
Pause = float | int
"""Seconds, or so many turns of the loop: 0 is the same instant."""


class Loop(
    looptime.LoopTimeEventLoop,  # type: ignore[misc] # it ships no types
    asyncio.SelectorEventLoop,
):
    """Virtual time: nobody waits who has nothing to wait for, and threads' work is done at once.

    Unix sockets and inotify within one process are ready as soon as the other end has acted, so
    time only moves when nothing else can. What is never done with an instant is a fault.
    """

    _instant = 0.0
    _turns = 0

    def __init__(self) -> None:
        super().__init__(noop_cycles=2)  # type: ignore[call-arg] # it ships no types

    def _run_once(self) -> None:
        self._turns = self._turns + 1 if self.time() == self._instant else 0
        self._instant = self.time()
        assert self._turns < BUSY_TURNS, "the agent is busy for ever"
        super()._run_once()

    def run_in_executor(  # type: ignore[override]
        self,
        executor: object,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401 - whatever the work takes
    ) -> asyncio.Future[T]:
        """Do the work here and now."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller's to handle
            done.set_exception(error)
        return done


async def _call_at_once(
    purpose: str,
    path: Path | str,
    work: Callable[[], T],
    **limits: object,
) -> T:
    """As blocking.call, in the loop."""
    del purpose, path, limits
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
        self._make_folder()

    def _make_folder(self) -> None:
        self.path.parent.mkdir()
        if self.is_config_map:
            self.path.symlink_to("..data/config.json")

    def move_away(self, to: Path) -> None:
        """Give it a new folder without content in the place of the one that goes ``to``."""
        self.path.parent.rename(to)
        self._make_folder()

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
    """The host, its kubelets, its agent; a loop in which time passes only when asked to."""

    def __init__(self, *, is_config_map: bool, config: bytes) -> None:
        self.files_before = self.open_files()
        self.folder = Path(tempfile.mkdtemp(prefix="model-", dir=MEMORY))
        self.host = HostBuilder(self.folder / "h")
        self.roots: Roots = self.host.roots
        self.roots.device_plugins.mkdir(parents=True)
        self.config = ConfigFile(self.folder / "c", is_config_map=is_config_map)
        self.config.write(config)
        self.written: bytes | None = config
        self.wanted = config_of(config) or Config()
        """The configuration that is to be in force."""
        self._moves = 0
        self.pods = Pods()
        self.mood = Mood()
        self.kubelet = self._new_kubelet()
        self.ghosts: list[Kubelet] = []
        """Kubelets that another took the place of, and that have not ended yet."""
        self.facts: dict[str, Device] = {}
        """What was last seen of each device."""
        self.shown: set[str] = set()
        """Resources that were seen with devices, and are configured ever since."""
        self.runner = asyncio.Runner(loop_factory=Loop)
        self.daemon: Startup
        self.task: asyncio.Task[None] | None = None
        self._stop: asyncio.Event
        self._endings: list[asyncio.Task[None]] = []
        """The ends of kubelets that end by themselves."""
        self._patches = ExitStack()
        # Threads know nothing of virtual time: it would be over before they have begun.
        self._patches.enter_context(patch.object(blocking, "call", _call_at_once))

    def run(self, work: Any) -> Any:  # noqa: ANN401 - whatever the work gives
        """Let the loop run until ``work`` is done."""
        outcome = self.runner.run(work)
        if self.task is not None and self.task.done():
            self.task.result()
            raise AssertionError("the agent ended by itself")
        return outcome

    def wait(self, pause: Pause) -> None:
        """Let time pass for everyone, or no time but some turns of the loop."""
        if isinstance(pause, float):
            self.run(asyncio.sleep(pause))
        elif pause:
            self.run(_turns(pause))

    def start_agent(self) -> None:
        """Start the agent as ``sriov-agent run`` does."""
        options = RunOptions(
            roots=self.roots,
            config_file=self.config.path,
            resource_prefix=PREFIX,
            pod_name=AGENT_POD,
            pod_namespace=NAMESPACE,
            cdi="field",
            netlink=False,
            rescan_s=0,  # it would hide that an event was missed
        )
        self._stop = asyncio.Event()
        self.daemon = Startup(options, self._stop)

        async def start() -> None:
            self.task = asyncio.create_task(self._live(self.daemon), name="agent")

        self.run(start())

    @staticmethod
    async def _live(daemon: Startup) -> None:
        with daemon.endpoints:
            await daemon.run()

    def stop_agent(self) -> None:
        """Ask the agent to end, and see it end."""
        task, self.task = self.task, None
        assert task is not None

        async def stop() -> None:
            self._stop.set()
            async with asyncio.timeout(STOP_S):
                await task

        self.run(stop())

    def restart_agent(self) -> None:
        """Stop it and start it again, beside what an earlier one left that was killed."""
        self.stop_agent()
        assert self.sockets() == []
        self.shown.clear()
        for folder in (self.roots.device_plugins, self.roots.plugins_registry):
            if folder.is_dir():
                path = socket_path(folder, f"{PREFIX}/net", socket_token(3, "0badcafe"))
                with socket.socket(socket.AF_UNIX) as dead:
                    dead.bind(str(path))
        self.start_agent()

    def close(self) -> None:
        """End everything."""
        if self.task is not None:
            self.stop_agent()
        self.end_kubelets()
        self.runner.close()
        asyncio.set_event_loop(None)
        self._patches.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Kubelet

    def _new_kubelet(self) -> Kubelet:
        return Kubelet(self.roots, self.mood, self.pods, self._kubelet_ends)

    def _kubelet_ends(self, ended: Kubelet, follows: bool) -> None:  # noqa: FBT001 - a callback
        """It ends by itself, in the middle of something."""
        is_current = ended is self.kubelet
        if is_current:
            self.kubelet = self._new_kubelet()

        async def end() -> None:
            await ended.die()
            if is_current and follows and not self.kubelet.is_alive:
                await self._begin(self.kubelet)

        self._endings.append(asyncio.ensure_future(end()))

    def _await_endings(self) -> None:
        endings, self._endings = self._endings, []
        for ending in endings:
            self.run(asyncio.wait({ending}))
            ending.result()

    @staticmethod
    async def _begin(kubelet: Kubelet) -> None:
        await kubelet.start()
        if kubelet.is_alive:
            kubelet.watching = kubelet.run(watch(kubelet))

    def kubelet_dies(self) -> None:
        """Its process is gone from one instant to the next."""
        self._await_endings()
        if self.kubelet.is_alive:
            self.run(self.kubelet.die())
            self.kubelet = self._new_kubelet()

    def kubelet_starts(self) -> None:
        """A new process; one that runs is killed before."""
        self.kubelet_dies()
        self.run(self._begin(self.kubelet))

    def kubelet_is_replaced(self, *, reads: bool) -> None:
        """A new process, while the old one hangs on to all that it has."""
        self._await_endings()
        if self.kubelet.is_alive:
            self.ghosts.append(self.kubelet)
            self.kubelet.hang_on(reads=reads)
            self.kubelet = self._new_kubelet()
        self.run(self._begin(self.kubelet))

    def end_ghosts(self) -> None:
        """What hangs on ends at last."""
        ghosts, self.ghosts = self.ghosts, []
        for ghost in ghosts:
            self.run(ghost.die())

    def end_kubelets(self) -> None:
        """All of them."""
        self.end_ghosts()
        self.kubelet_dies()

    # Configuration

    def new_path(self) -> Path:
        """Where something can move to, out of everybody's sight."""
        self._moves += 1
        return self.folder / f"away-{self._moves}"

    def write_config(self, data: bytes | None, *, in_a_new_folder: bool = False) -> None:
        """A file that is gone leaves the last good one in force; a key that is gone, no pools."""
        wanted = config_of(data)
        if data is None and self.config.is_config_map:
            wanted = Config()
        if wanted is None:
            # An edit that follows before the agent could see the last one is as if it were first.
            self.wait(EDIT_S)
        self.written, self.wanted = data, wanted or self.wanted
        if in_a_new_folder:
            self.config.move_away(self.new_path())
        self.config.write(data)
        self.shown &= {p.resource for p in self.wanted.pools}

    # What to compare

    def streams(self) -> Counter[str]:
        """Of each resource the streams that any kubelet has open, as far as it looks."""
        kubelets = (self.kubelet, *(ghost for ghost in self.ghosts if ghost.reads))
        return Counter(client.resource for kubelet in kubelets for client in kubelet.streams)

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


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", repr(task.get_coro()))

"""A fleet at work in the test's loop, with fixed answers, and waits on what it says on the bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from agent.bus import Bus
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.events.plugin import ListPushed, Registered, RegistrationFailed, StreamLost, StreamOpened
from agent.inotify import DirectoryWatch, EntryChanged
from agent.kubelet.watch import KubeletWatch
from agent.model.answers import Allocation, DeviceListing, DeviceNode, ListedDevice
from agent.model.plugin_events import PoolServerState, ServerEnded
from agent.plugin.fleet import Fleet
from agent.plugin.generation import Limits
from agent.plugin.registration import RegistrationMode
from agent.roots import Roots
from tests.support.kubelet import PATIENCE_S, Kubelet

EVENTS = (
    *(ListPushed, Registered, RegistrationFailed),
    *(ServerEnded, StreamLost, StreamOpened),
)


def offer(resource: str, *ids: str, unhealthy: tuple[str, ...] = ()) -> DeviceListing:
    """An offer of devices without NUMA node, healthy unless named in ``unhealthy``."""
    return DeviceListing(resource, tuple(ListedDevice(i, i not in unhealthy) for i in ids))


@attrs.define
class FixedAnswers:
    """Answers for every device, but for ids that start with ``missing``, ``broken``, ``bug``."""

    asked: list[tuple[str, tuple[str, ...]]] = attrs.Factory(list)
    asked_once: asyncio.Event = attrs.Factory(asyncio.Event)
    gate: asyncio.Event = attrs.Factory(asyncio.Event)
    """Allocate of a device that starts with ``slow`` waits for it."""

    async def allocate(self, resource: str, device_ids: tuple[str, ...]) -> Allocation:
        """The ids in an environment variable, and one device node for each."""
        self.asked.append((resource, device_ids))
        self.asked_once.set()
        if any(i.startswith("slow") for i in device_ids):
            await self.gate.wait()
        missing = tuple(i for i in device_ids if i.startswith("missing"))
        if missing:
            raise UnknownDeviceError(resource, missing)
        for device_id in device_ids:
            if device_id.startswith("broken"):
                raise DeviceNotUsableError(device_id, "its VFIO group is gone")
            if device_id.startswith("bug"):
                raise ZeroDivisionError
        return Allocation(
            envs=(("IDS", ",".join(device_ids)),),
            nodes=tuple(DeviceNode(f"/dev/{i}", f"/dev/{i}") for i in device_ids),
            cdi_devices=tuple(f"vendor/class={i}" for i in device_ids),
        )

    async def prefer(
        self, resource: str, available: tuple[str, ...], must_include: tuple[str, ...], size: int
    ) -> tuple[str, ...]:
        """The first ones in the order of their text."""
        del resource
        rest = sorted(set(available) - set(must_include))
        return (*must_include, *rest)[:size]


class Silent:
    """Wants to know nothing of a feed's streams."""

    def stream_opened(self) -> None:
        """Pass over it."""

    def stream_lost(self) -> None:
        """Pass over it."""

    def list_pushed(
        self, sequence: int, devices: tuple[ListedDevice, ...], seen_at: float | None
    ) -> None:
        """Pass over it."""


async def until_served(folder: Path) -> None:
    """Wait until a plugin's socket is in ``folder``."""
    with DirectoryWatch((folder,)) as watch:
        if plugin_sockets(folder):
            return
        async for change in watch:
            if isinstance(change, EntryChanged) and is_plugin_socket(change.path):
                return


def plugin_sockets(folder: Path) -> list[str]:
    """Names of the plugins' sockets in ``folder``."""
    return sorted(path.name for path in folder.iterdir() if is_plugin_socket(path))


def is_plugin_socket(path: Path) -> bool:
    """Whether kubelet would take a file for a plugin's socket."""
    return path.is_socket() and not path.name.startswith(".") and path.name != "kubelet.sock"


class Node:
    """What a test holds of a running fleet."""

    def __init__(self, roots: Roots, fleet: Fleet, bus: Bus) -> None:
        self.roots = roots
        self.fleet = fleet
        self.bus = bus
        self.events: list[Any] = []
        self._happened = asyncio.Event()
        for kind in EVENTS:
            bus.on(kind, self._note)

    def _note(self, event: object) -> None:
        self.events.append(event)
        self._happened.set()

    def of(self, kind: type) -> list[Any]:
        """The events of one class so far."""
        return [event for event in self.events if type(event) is kind]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until ``condition`` holds, looked at after each event."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._happened.clear()
                await self._happened.wait()

    async def kubelet_has(self, kubelet: Kubelet, resource: str, *ids: str) -> None:
        """Wait until kubelet can hand out exactly these devices, and the fleet knows it."""
        await asyncio.to_thread(
            kubelet.wait_for,
            lambda k: sorted(k.allocatable(resource)) == sorted(ids),
            f"{resource}: {ids}",
        )
        await self.until(lambda: self._stands(resource))

    def _stands(self, resource: str) -> bool:
        state = self.state(resource)
        return state.registered_by is not None and state.stream_live

    def state(self, resource: str) -> PoolServerState:
        """The state of one resource's server."""
        return next(s for s in self.fleet.state() if s.resource == resource)


@asynccontextmanager
async def running_fleet(
    roots: Roots,
    mode: RegistrationMode = "auto",
    answers: FixedAnswers | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Node]:
    """A fleet with its watch on kubelet's folders; ended politely."""
    bus = Bus()
    async with KubeletWatch(roots, bus) as watch, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run())
        fleet = Fleet(roots, answers or FixedAnswers(), bus, tasks, mode, limits=limits)
        async with fleet:
            yield Node(roots, fleet, bus)
        watching.cancel()

"""Turns hints into snapshots: the first hint scans at once, a burst costs one scan a window.

Bad news (a device vanished) must not wait, so every scan is published at once. Good news (devices
that appear) waits until the host is quiet: VFs come one by one, each with its own events.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from agent import logs
from agent.bus import Bus
from agent.model.events import HostHint, ScanStalled, SnapshotTaken
from agent.model.snapshot import Snapshot

T = TypeVar("T")
Elsewhere = Callable[[Callable[[], Snapshot]], Awaitable[Snapshot]]

WINDOW_S = 0.05
"""Least time between two scans of one burst of hints."""
QUIET_S = 0.15
"""After this long without a hint the host has settled."""
UNSETTLED_AT_MOST_S = 1.5
"""A host that is never quiet counts as settled after this long."""
STALL_S = 10.0
"""A scan that takes longer is reported; sysfs reads can hang in a driver."""


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread that cannot hold up the end of the process if it hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.cancelled():
            done.set_exception(error) if error else done.set_result(result)  # type: ignore[arg-type]

    def body() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 # handed to the waiting task
            outcome: tuple[T | None, BaseException | None] = (None, error)
        else:
            outcome = (result, None)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=body, name="scan", daemon=True).start()
    return await done


class Monitor:
    """Scans whenever a :class:`HostHint` is published; ``newest`` is the last snapshot.

    ``elsewhere`` runs a scan without holding up the loop.
    """

    def __init__(
        self, scan: Callable[[int], Snapshot], bus: Bus, elsewhere: Elsewhere = in_daemon_thread
    ) -> None:
        self._scan = scan
        self._bus = bus
        self._elsewhere = elsewhere
        self.newest = Snapshot()
        self.scans = 0
        self.stalled_s = 0.0
        """How long the scan under way has been taking, once that is unreasonable; else 0."""

    async def scan_now(self) -> Snapshot:
        """Scan in a thread of its own, without holding up the loop; publishes nothing."""
        self.scans += 1
        scanning = asyncio.ensure_future(self._elsewhere(lambda: self._scan(self.scans)))
        stall_s = 0.0
        while not (await asyncio.wait({scanning}, timeout=STALL_S))[0]:
            stall_s += STALL_S
            self._stall(stall_s)
        if stall_s:
            self._stall(0.0)
        self.newest = scanning.result()
        return self.newest

    def _stall(self, seconds: float) -> None:
        self.stalled_s = seconds
        if seconds:
            logs.emit_once("host.scan_stalled", "", seconds=seconds)
        else:
            logs.forget("host.scan_stalled", "")
            logs.emit("host.scan_resumed")
        self._bus.publish(ScanStalled(seconds))

    async def run(self) -> None:
        """Follow hints for ever."""
        with self._bus.subscribe(HostHint) as hints:
            while True:
                await hints.take()
                await self._follow_burst(hints.take)

    async def _follow_burst(self, next_hint: Callable[[], Awaitable[HostHint]]) -> None:
        """Scan until the host is quiet, then tell that it is."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            started = loop.time()
            before, snapshot = self.newest, await self.scan_now()
            overdue = loop.time() - began > UNSETTLED_AT_MOST_S
            if overdue:
                break
            if snapshot != before:
                self._bus.publish(SnapshotTaken(snapshot, settled=False))
            try:
                async with asyncio.timeout(QUIET_S):
                    await next_hint()
            except TimeoutError:
                break
            await asyncio.sleep(max(0.0, started + WINDOW_S - loop.time()))
        self._bus.publish(SnapshotTaken(self.newest, settled=True))

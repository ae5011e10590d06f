"""Scans the host after hints (HostChanged): at the first one, then once per window.

A scan reads what the hints since the last scan name, or everything if one of them names nothing.

Every scan is published at once, since a device that disappeared must be reported without delay.
Devices that appear are listed only when the host has settled: VFs appear one by one, each with its
own events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from agent import blocking, logs
from agent.bus import Bus
from agent.errno_advice import with_advice
from agent.events.host import ScanFailed, ScanResumed, ScanStalled
from agent.model.device import Role
from agent.model.events import HostChanged, ScanFailing, SnapshotTaken
from agent.model.snapshot import Snapshot
from agent.tasks import Retry

T = TypeVar("T")
Elsewhere = Callable[[Callable[[], Snapshot]], Awaitable[Snapshot]]
Touched = frozenset[str] | None
"""The names in the hints, as in :class:`HostChanged`."""
Scan = Callable[[Touched], Snapshot]
"""Scans the host; takes what to read, None = everything."""

WINDOW_S = 0.05
"""Least time between two scans of one burst of hints."""
QUIET_S = 0.15
"""After this long without a hint the host has settled."""
UNSETTLED_AT_MOST_S = 1.5
"""A host without such a pause counts as settled after this long."""
WHOLE_S = 600.0
"""After a scan of named functions, a full scan follows if the previous one is this long ago."""
LOOK_AGAIN_S = 2.0
"""A PF whose VFs disappeared is scanned again after this long: sriov_disable() in drivers/pci/iov.c
waits a second between the last VF's event and ``sriov_numvfs`` = 0, which causes no event."""
STALL_S = 10.0
"""A scan that takes longer is reported; sysfs reads can hang in a driver."""


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run a scan in the thread for scans, which does not delay the end of the process if it hangs.

    Raises OSError if there is no thread, and none can be created.
    """
    return await blocking.call("scan", "", work, limit_s=None)


class PendingHints:
    """The hints since the last call of ``take``; a context manager."""

    def __init__(self, bus: Bus) -> None:
        self._touched: Touched = frozenset()
        self.since_s: float | None = None
        """Loop time of the first one of the burst; None = there was none since ``settle``."""
        self._came = asyncio.Event()
        self._leave = bus.on(HostChanged, self._note)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _note(self, hint: HostChanged) -> None:
        if self._touched is not None:
            self._touched = None if hint.touched is None else self._touched | hint.touched
        if self.since_s is None:
            self.since_s = asyncio.get_running_loop().time()
        self._came.set()

    def settle(self) -> None:
        """End the burst: a hint that was not taken yet, or the next one, starts a new burst."""
        self.since_s = asyncio.get_running_loop().time() if self._came.is_set() else None

    async def wait(self) -> None:
        """Wait until there is a hint that was not taken."""
        await self._came.wait()

    def take(self) -> Touched:
        """Remove all of them; returns what they name."""
        touched, self._touched = self._touched, frozenset()
        self._came.clear()
        return touched


class RescanLoop:
    """Scans whenever a :class:`HostChanged` is published; ``newest`` is the last snapshot.

    ``elsewhere`` runs a scan without blocking the loop.
    """

    def __init__(self, scan: Scan, bus: Bus, elsewhere: Elsewhere = in_daemon_thread) -> None:
        self._scan = scan
        self._bus = bus
        self._elsewhere = elsewhere
        self.newest = Snapshot()
        self.scans = 0
        self._whole_at = 0.0
        self._is_partial = False
        """Whether the newest scan did not read everything."""
        self.failing = ""
        """Why reading the host has failed since the last snapshot; empty = it has not."""
        self.stalled_s = 0.0
        """How long the current scan has been running, if that is more than STALL_S; else 0."""

    async def scan_now(self, touched: Touched = None) -> Snapshot:
        """Scan in a thread, without blocking the loop; publishes nothing.

        A scan fails if the process has no descriptors, memory or threads left, or if sysfs cannot
        be listed. Then it is tried again until it succeeds, and the last snapshot stays.
        """
        retry = Retry()
        while True:
            try:
                self.newest = await self._scan_once(touched)
            except OSError as error:
                self._note_failure(with_advice(error))
                await retry.wait()
                touched = None
            else:
                self._note_failure("")
                return self.newest

    def _note_failure(self, error: str) -> None:
        if error:
            logs.emit_once(ScanFailed(error=error), "")
        elif self.failing:
            logs.forget(ScanFailed, "")
        has_changed = bool(error) != bool(self.failing)
        self.failing = error
        if has_changed:
            self._bus.publish(ScanFailing(error))

    async def _scan_once(self, touched: Touched) -> Snapshot:
        self.scans += 1
        self._is_partial = touched is not None
        if touched is None:
            self._whole_at = asyncio.get_running_loop().time()
        scanning = asyncio.ensure_future(self._elsewhere(lambda: self._scan(touched)))
        stall_s = 0.0
        while not (await asyncio.wait({scanning}, timeout=STALL_S))[0]:
            stall_s += STALL_S
            self._stall(stall_s)
        if stall_s:
            self._stall(0.0)
        return scanning.result()

    def _stall(self, seconds: float) -> None:
        self.stalled_s = seconds
        if seconds:
            self._bus.publish(ScanStalled(seconds=seconds), once="")
        else:
            logs.forget(ScanStalled, "")
            self._bus.publish(ScanResumed())

    async def run(self) -> None:
        """Scan after hints until cancelled."""
        with PendingHints(self._bus) as hints:
            while True:
                await hints.wait()
                before = self.newest
                await self._follow_burst(hints)
                if _lost_its_vfs(before, self.newest):
                    await self._look_again(hints)
                await self._make_sure()

    async def _make_sure(self) -> None:
        """Scan everything at intervals, in case something changed without an event."""
        now = asyncio.get_running_loop().time()
        if self._is_partial and now - self._whole_at >= WHOLE_S:
            await self._look(None)

    async def _look_again(self, hints: PendingHints) -> None:
        """Scan again after LOOK_AGAIN_S, unless a hint arrives before."""
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await hints.wait()
        except TimeoutError:
            await self._look(frozenset())

    async def _look(self, touched: Touched) -> None:
        began_s = asyncio.get_running_loop().time()
        before, snapshot = self.newest, await self.scan_now(touched)
        if snapshot != before:
            self._bus.publish(SnapshotTaken(snapshot, settled=True, seen_at=began_s))

    async def _follow_burst(self, hints: PendingHints) -> None:
        """Scan until the host has settled, then publish that it has."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            started = loop.time()
            before, snapshot = self.newest, await self.scan_now(hints.take())
            overdue = loop.time() - began > UNSETTLED_AT_MOST_S
            if overdue:
                break
            if snapshot != before:
                self._bus.publish(SnapshotTaken(snapshot, settled=False, seen_at=hints.since_s))
            try:
                async with asyncio.timeout(QUIET_S):
                    await hints.wait()
            except TimeoutError:
                break
            await asyncio.sleep(max(0.0, started + WINDOW_S - loop.time()))
        self._bus.publish(SnapshotTaken(self.newest, settled=True, seen_at=hints.since_s))
        hints.settle()


def _lost_its_vfs(before: Snapshot, after: Snapshot) -> bool:
    """Whether all VFs of a PF disappeared, and its ``sriov_numvfs`` is not 0."""
    role = Role.VF
    had, has = ({d.pf_address for d in s.devices if d.role is role} for s in (before, after))
    pfs = (after.pfs.get(address or "") for address in had - has)
    return any(pf.num_vfs for pf in pfs if pf is not None)

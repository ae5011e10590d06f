"""The device list of one resource, which kubelet's stream pulls, so that it gets the newest.

The stream waits for a list newer than the one it sent. A slow stream skips lists, and does not
delay other resources. Of several streams the newest is served; the older ones end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from agent.model.answers import ListedDevice
from agent.plugin.encoding import encode_list
from agent.wakeup import Wakeup


class StreamObserver(Protocol):
    """Is called when the streams of a resource change; runs on the loop and must not wait."""

    def stream_opened(self) -> None:
        """A stream began; it may replace an older one."""

    def stream_lost(self) -> None:
        """The stream ended without a call of ``end``, and no other one replaced it."""

    def list_pushed(
        self, sequence: int, devices: tuple[ListedDevice, ...], seen_at: float | None
    ) -> None:
        """The list of this number was sent; ``seen_at`` is the loop time (s) of its cause."""


class DeviceList:
    """The current list of a resource with its number, and the stream that follows it."""

    _is_sending: bool
    """Whether the current stream sends a list."""
    pushed: int
    """Number of the newest list that the current stream sent; 0 = none yet."""

    def __init__(self, wakeup: Wakeup, observer: StreamObserver) -> None:
        self.wakeup = wakeup
        self._observer = observer
        self._reader: asyncio.Task[None] | None = None
        self.devices: tuple[ListedDevice, ...] = ()
        self.sequence = 0
        self._seen_at: float | None = None
        """Loop time (s) of the first cause of a list that was not sent yet."""
        self.begin()

    @property
    def live(self) -> bool:
        """Whether a stream is open."""
        return self._reader is not None

    def publish(self, devices: tuple[ListedDevice, ...], seen_at: float | None = None) -> None:
        """Make ``devices`` the list; if it changed, the stream sends it after the one under way.

        ``seen_at`` is the loop time (s) of the event on the host that led to it.
        """
        is_new = devices != self.devices or not self.sequence
        self.devices = devices  # also an equal list: the caller keeps that object, too
        if is_new:
            if self._seen_at is None:
                self._seen_at = seen_at
            self.sequence += 1
            self.wakeup.wake()

    def begin(self) -> None:
        """Let streams open, as for a new generation's server."""
        self._ended = False
        self.opened = 0
        """Streams opened since then."""

    def end(self) -> None:
        """Ask the streams to end; they return after the list that they are sending."""
        self._ended = True
        self.wakeup.wake()

    async def follow(self, reader: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """Lists for one stream, the current one first; ends when a newer stream opens.

        ``reader`` is the task that sends them. If it is blocked in a send when it is replaced, it
        is cancelled, since its peer no longer reads.
        """
        if self._ended:
            return
        self._take_over(reader)
        try:
            while self._is_current(reader):
                if self.pushed == self.sequence:
                    await self.wakeup.until(lambda: self._has_newer(reader))
                    continue
                sequence, devices = self.sequence, self.devices
                self._is_sending = True
                yield encode_list(devices)
                if self._reader is reader:
                    self._is_sending = False
                    self._note_pushed(sequence, devices)
                del devices  # an equal list may replace it while this waits: do not keep both
        finally:
            self._leave(reader)

    def _take_over(self, reader: asyncio.Task[None]) -> None:
        replaced, self._reader = self._reader, reader
        if replaced is not None and self._is_sending:
            replaced.cancel()
        self._is_sending = False
        self.pushed = 0
        self.opened += 1
        self._observer.stream_opened()
        self.wakeup.wake()

    def _is_current(self, reader: asyncio.Task[None]) -> bool:
        return self._reader is reader and not self._ended

    def _has_newer(self, reader: asyncio.Task[None]) -> bool:
        return self.pushed != self.sequence or not self._is_current(reader)

    def _note_pushed(self, sequence: int, devices: tuple[ListedDevice, ...]) -> None:
        self.pushed = sequence
        seen_at, self._seen_at = self._seen_at, None
        self._observer.list_pushed(sequence, devices, seen_at)
        self.wakeup.wake()

    def _leave(self, reader: asyncio.Task[None]) -> None:
        if self._reader is not reader:
            return
        self._reader = None
        if not self._ended:
            self._observer.stream_lost()
        self.wakeup.wake()

"""Calls that may block, made in threads: the event loop never waits for a file system.

A mount whose server is dead (NFS, FUSE) keeps every call that touches it in the kernel, for minutes
or for ever. Each purpose (a folder, or one kind of work) has its own few threads, so that a call
which hangs costs only its own purpose. Every fault comes out as an OSError with the path.

The threads are made at the first call and kept: what worked once works also while no further thread
can be made (a limit of processes is reached). They are daemon threads: one that hangs does not hold
up the end of the process.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, TypeVar

from agent import logs
from agent.attrs_classes import frozen

T = TypeVar("T")

LIMIT_S = 2.0
"""How long a caller waits for a call before it goes on without the result."""
GRACE_S = 0.005
"""A call that takes less is waited for without a turn of the loop: most take microseconds."""
THREADS = {"answers": 4, "reread": 4, "confirm": 4}
"""How many threads a purpose may have; one for all others."""


@frozen
class Hanging:
    """A call that did not return in time, and still has not."""

    purpose: str
    path: str
    since_s: float
    """``time.monotonic()`` of its beginning."""


_workers: dict[str, _Worker] = {}
_receivers: list[Callable[[], None]] = []


async def call(
    purpose: str,
    path: Path | str,
    work: Callable[[], T],
    *,
    limit_s: float | None = LIMIT_S,
    undo: Callable[[T], object] | None = None,
) -> T:
    """The result of ``work``, called in a thread of ``purpose``; ``path`` is named in errors.

    Raises OSError for every fault of the system: as the call raised it, ELOOP where pathlib says
    RuntimeError, EAGAIN where no thread can be made, and TimeoutError if there is no result within
    ``limit_s`` (None = no limit) or while an earlier call of the purpose still hangs. A result that
    comes after that is handed to ``undo``, in the thread.
    """
    return await _worker(purpose).call(work, str(path), limit_s, undo)


def call_now(purpose: str, path: Path | str, work: Callable[[], T], *, limit_s: float) -> T:
    """The same for a caller that cannot await: the loop waits, so the limit must be short.

    A call that hangs costs that once; further ones are refused at once.
    """
    return _worker(purpose).call_now(work, str(path), limit_s)


def _worker(purpose: str) -> _Worker:
    worker = _workers.get(purpose)
    if worker is None:
        worker = _workers[purpose] = _Worker(purpose)
    return worker


async def compute(purpose: str, work: Callable[[], T]) -> T:
    """The result of ``work``, which needs no file system, from a thread of ``purpose``.

    Done on the loop if no thread can be made: late is better than never. What ``work`` raises
    passes through.
    """
    outcome: list[T] = []
    try:
        await call(purpose, "", lambda: outcome.append(work()), limit_s=None)
    except NoThreadError:
        return work()
    return outcome[0]


def prepare(*purposes: str) -> None:
    """Make the threads of ``purposes`` now, as far as that can be done."""
    for purpose in purposes:
        with suppress(NoThreadError):
            _worker(purpose).need_thread(purpose)


def hanging() -> tuple[Hanging, ...]:
    """All calls that hang now, by purpose."""
    return tuple(h for purpose in sorted(_workers) for h in _workers[purpose].hanging())


def on_change(receive: Callable[[], None]) -> Callable[[], None]:
    """Call ``receive`` on the loop when a call begins or ceases to hang; returns how to end it."""
    _receivers.append(receive)
    return lambda: _receivers.remove(receive)


def as_os_error(error: BaseException, path: Path | str) -> OSError | None:
    """The OSError that a fault of the system is; None for anything else.

    pathlib raises RuntimeError for a circle of symbolic links up to Python 3.12.
    """
    if isinstance(error, OSError):
        return error
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):
        return OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return None


class NoThreadError(OSError):
    """No further thread can be made: the limit of the container's or the node's processes."""

    def __init__(self, path: Path | str) -> None:
        text = "no further thread can be made: raise the limit of processes (pids)"
        super().__init__(errno.EAGAIN, text, str(path) or None)


class _Call(Generic[T]):
    """One call on its way through a thread."""

    def __init__(
        self, work: Callable[[], T], path: str, undo: Callable[[T], object] | None
    ) -> None:
        self.work = work
        self.path = path
        self.undo = undo
        self.lock = threading.Lock()
        """Held while it changes hands: the thread finishes it, or its caller gives it up."""
        self.finished = threading.Event()
        self.notify: Callable[[], None] | None = None
        self.is_given_up = False
        self.is_late = False
        """Whether it was given up because it took too long."""
        self.began_s: float | None = None
        self.result: T
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call; for the thread."""
        self.began_s = time.monotonic()
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            self.error = error
        with self.lock:
            self.finished.set()
            if self.notify is not None:
                self.notify()
        if self.is_given_up:
            self.take_back()

    def take_back(self) -> None:
        """Undo what was done for a caller who is gone; for the thread."""
        if self.error is None and self.undo is not None:
            with suppress(OSError):
                self.undo(self.result)

    def give_up(self) -> bool:
        """Go on without the result; False if it is there by now."""
        with self.lock:
            self.is_given_up = not self.finished.is_set()
            return self.is_given_up

    def is_hanging(self) -> bool:
        """Whether it was given up because it took too long, and still has not returned."""
        return self.is_late and not self.finished.is_set()

    def is_too_long(self) -> bool:
        """Whether it runs for longer than its caller, or anybody, would wait."""
        return not self.finished.is_set() and (self.is_late or _age_s(self) > LIMIT_S)

    def outcome(self) -> T:
        """What came of it."""
        if self.error is None:
            return self.result
        if (fault := as_os_error(self.error, self.path)) is not None and fault is not self.error:
            raise fault from self.error
        raise self.error


class _Worker:
    """The threads of one purpose, and the calls in them."""

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._queue: SimpleQueue[_Call[object]] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()
        self._pending = 0
        """Calls in the queue and in threads; changed under the lock."""
        self._running: set[_Call[object]] = set()

    def hanging(self) -> tuple[Hanging, ...]:
        """The calls that were given up as too late and have not returned."""
        late = (c for c in tuple(self._running) if c.is_hanging())
        return tuple(Hanging(self._purpose, c.path, c.began_s or 0.0) for c in late)

    def need_thread(self, path: str) -> None:
        """Have a thread for one more call if one can be made; raises NoThreadError if none is."""
        if self._pending < self._threads or self._threads >= THREADS.get(self._purpose, 1):
            return
        body = threading.Thread(target=self._serve, name=self._purpose, daemon=True)
        try:
            body.start()
        except RuntimeError as error:
            if not self._threads:
                raise NoThreadError(path) from error
        else:
            self._threads += 1

    def _serve(self) -> None:
        while True:
            one = self._queue.get()
            if not one.is_given_up:
                self._running.add(one)
                one.run()
                self._running.discard(one)
            with self._lock:
                self._pending -= 1
            del one  # or its result would live until the next call

    def _put(self, one: _Call[T]) -> None:
        with self._lock:
            self._pending += 1
        self._queue.put(one)  # type: ignore[arg-type] # the thread does not look at the result

    async def call(
        self,
        work: Callable[[], T],
        path: str,
        limit_s: float | None,
        undo: Callable[[T], object] | None,
    ) -> T:
        """As :func:`call`."""
        one = self._begin(work, path, undo)
        grace_s = GRACE_S if limit_s is not None else 0
        if not one.finished.wait(grace_s):
            await self._wait(one, limit_s)
        return one.outcome()

    def call_now(self, work: Callable[[], T], path: str, limit_s: float) -> T:
        """As :func:`call_now`."""
        one = self._begin(work, path, None)
        if not one.finished.wait(limit_s) and one.give_up():
            with suppress(RuntimeError):  # no loop runs: nobody follows the log
                self._say_late(one, asyncio.get_running_loop())
            raise _late(one.path, limit_s)
        return one.outcome()

    def _begin(
        self, work: Callable[[], T], path: str, undo: Callable[[T], object] | None
    ) -> _Call[T]:
        """Give a call to a thread."""
        self._refuse_if_held(path)
        self.need_thread(path)
        one = _Call(work, path, undo)
        self._put(one)
        return one

    def _refuse_if_held(self, path: str) -> None:
        """Raises TimeoutError while as many calls hang as there may be threads."""
        held = [c for c in tuple(self._running) if c.is_given_up and c.is_too_long()]
        if len(held) >= THREADS.get(self._purpose, 1):
            held_at = held[0].path
            text = f"an earlier call at {held_at} hangs since {_age_s(held[0]):.0f} s"
            raise TimeoutError(errno.ETIMEDOUT, text, path)

    async def _wait(self, one: _Call[T], limit_s: float | None) -> None:
        """Let the loop go on until the call is finished or the limit is over."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(wake)

        with one.lock:
            if one.finished.is_set():
                return
            one.notify = notify
        try:
            await asyncio.wait({done}, timeout=limit_s)
        except asyncio.CancelledError:
            if not one.give_up():
                self._put(_Call(one.take_back, one.path, None))
            raise
        if one.give_up():
            self._say_late(one, loop)
            raise _late(one.path, limit_s)

    def _say_late(self, one: _Call[T], loop: asyncio.AbstractEventLoop) -> None:
        """Say that a call hangs, and later that it does no more."""

        def returned() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._say_returned, one.path)

        with one.lock:
            if one.began_s is None or one.finished.is_set():
                return  # it waited behind another one, of which that is said; or it came just now
            one.notify, one.is_late = returned, True
        logs.emit_once("file.hangs", self._purpose, purpose=self._purpose, path=one.path)
        _tell_receivers()

    def _say_returned(self, path: str) -> None:
        if self.hanging():
            return
        logs.forget("file.hangs", self._purpose)
        logs.emit("file.answers", purpose=self._purpose, path=path)
        _tell_receivers()


def _late(path: str, limit_s: float | None) -> TimeoutError:
    text = f"no answer within {limit_s:g} s; does its file system hang?"
    return TimeoutError(errno.ETIMEDOUT, text, path)


def _age_s(one: _Call[T]) -> float:
    return time.monotonic() - one.began_s if one.began_s is not None else 0.0


def _tell_receivers() -> None:
    for receive in tuple(_receivers):
        receive()

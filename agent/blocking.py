"""Runs calls that may block in threads, so that the event loop never waits for a file system.

A call that touches a mount whose server is dead (NFS, FUSE) stays in the kernel, for minutes or for
ever. Each purpose (a folder, or one kind of work) has its own few threads, so a call that hangs
affects only its own purpose. Every error of the system is raised as an OSError with the path.

Threads are created at the first call of a purpose and kept, so that it also works while no further
thread can be created (a limit of processes is reached). They are daemon threads: one that hangs
does not delay the end of the process.
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
from agent.events.host import FileAnswers, FileHangs

T = TypeVar("T")

LIMIT_S = 2.0
"""How long a caller waits for a call before it goes on without the result."""
GRACE_S = 0.005
"""The loop itself waits this long for a result: most calls take microseconds."""
THREADS = {"answers": 4, "reread": 4, "confirm": 4}
"""How many threads these purposes may have; all others have one."""


@frozen
class Hanging:
    """A call that exceeded its limit, and has not returned yet."""

    purpose: str
    path: str
    since_s: float
    """``time.monotonic()`` at its start."""


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
    """Run ``work`` in a thread of ``purpose`` and return its result; ``path`` is for error texts.

    Raises OSError for every error of the system: as the call raised it, ELOOP for pathlib's
    RuntimeError, EAGAIN if no thread can be created, and TimeoutError if there is no result within
    ``limit_s`` (None = no limit) or while an earlier call of the purpose still hangs. A result that
    arrives after the limit is passed to ``undo``, in the thread.
    """
    worker = _worker(purpose)
    one = worker.begin(work, str(path), undo)
    if not one.finished.wait(GRACE_S if limit_s is not None else 0):
        await worker.wait(one, limit_s)
    return one.outcome()


def call_now(
    purpose: str,
    path: Path | str,
    work: Callable[[], T],
    *,
    limit_s: float,
    undo: Callable[[T], object] | None = None,
) -> T:
    """The same for a caller that cannot await: the loop waits, so the limit must be short.

    While a call hangs, further ones fail at once.
    """
    worker = _worker(purpose)
    one = worker.begin(work, str(path), undo)
    if not one.finished.wait(limit_s):
        worker.end_wait(one, limit_s)
    return one.outcome()


def _worker(purpose: str) -> _Worker:
    worker = _workers.get(purpose)
    if worker is None:
        worker = _workers[purpose] = _Worker(purpose)
    return worker


async def compute(purpose: str, work: Callable[[], T]) -> T:
    """Run ``work``, which uses no file system, in a thread of ``purpose``; return its result.

    If no thread can be created, it runs on the loop. Raises what ``work`` raises.
    """
    outcome: list[T] = []
    try:
        await call(purpose, "", lambda: outcome.append(work()), limit_s=None)
    except NoThreadError:
        return work()
    return outcome[0]


def prepare(*purposes: str) -> None:
    """Create the threads of ``purposes`` now, as far as possible."""
    for purpose in purposes:
        with suppress(NoThreadError):
            _worker(purpose).need_thread(purpose)


def hanging() -> tuple[Hanging, ...]:
    """All calls that hang now, by purpose."""
    return tuple(h for purpose in sorted(_workers) for h in _workers[purpose].hanging())


def on_change(receive: Callable[[], None]) -> Callable[[], None]:
    """Call ``receive`` after a call began or ceased to hang; returns how to stop that."""
    _receivers.append(receive)
    return lambda: _receivers.remove(receive)


def as_os_error(error: BaseException, path: Path | str) -> OSError | None:
    """The error of the system as an OSError; None for any other exception.

    Up to Python 3.12, pathlib raises RuntimeError for a loop of symbolic links.
    """
    if isinstance(error, OSError):
        return error
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):
        return OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return None


class NoThreadError(OSError):
    """No further thread can be created: a process limit of the container or the node is reached."""

    def __init__(self, path: Path | str) -> None:
        text = "no further thread can be created: raise the limit of processes (pids)"
        super().__init__(errno.EAGAIN, text, str(path) or None)


class _Call(Generic[T]):
    """One call, from its caller to a thread and back."""

    def __init__(
        self, work: Callable[[], T], path: str, undo: Callable[[T], object] | None
    ) -> None:
        self.work = work
        self.path = path
        self.undo = undo
        self.lock = threading.Lock()
        """Held while the thread finishes it, and while its caller gives it up."""
        self.finished = threading.Event()
        self.notify: Callable[[], None] | None = None
        self.is_given_up = False
        self.is_late = False
        """Whether it was given up because it took too long."""
        self.began_s: float | None = None
        self.result: T
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the call; in the thread."""
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
        """Undo a result that no caller waits for; in the thread."""
        if self.error is None and self.undo is not None:
            with suppress(OSError):
                self.undo(self.result)

    def give_up(self) -> bool:
        """Stop waiting for the result; False if it has arrived."""
        with self.lock:
            self.is_given_up = not self.finished.is_set()
            return self.is_given_up

    def is_hanging(self) -> bool:
        """Whether it exceeded its limit, and has not returned yet."""
        return self.is_late and not self.finished.is_set()

    def is_too_long(self) -> bool:
        """Whether it runs for longer than its caller, or LIMIT_S, allows."""
        return not self.finished.is_set() and (self.is_late or _age_s(self) > LIMIT_S)

    def outcome(self) -> T:
        """Its result; raises its error."""
        if self.error is None:
            return self.result
        if (fault := as_os_error(self.error, self.path)) is not None and fault is not self.error:
            raise fault from self.error
        raise self.error


class _Worker:
    """The threads of one purpose, and their calls."""

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._queue: SimpleQueue[_Call[object]] = SimpleQueue()
        self._threads = 0
        self._lock = threading.Lock()
        self._pending = 0
        """Calls in the queue and in threads; changed under the lock."""
        self._running: set[_Call[object]] = set()

    def hanging(self) -> tuple[Hanging, ...]:
        """The calls that exceeded their limit and have not returned."""
        late = (c for c in tuple(self._running) if c.is_hanging())
        return tuple(Hanging(self._purpose, c.path, c.began_s or 0.0) for c in late)

    def need_thread(self, path: str) -> None:
        """Create a thread for one more call if possible; raises NoThreadError if there is none."""
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

    def begin(
        self, work: Callable[[], T], path: str, undo: Callable[[T], object] | None
    ) -> _Call[T]:
        """Queue a call for a thread; raises NoThreadError or TimeoutError if none can take it."""
        self._refuse_if_held(path)
        self.need_thread(path)
        one = _Call(work, path, undo)
        self._put(one)
        return one

    def _refuse_if_held(self, path: str) -> None:
        """Raises TimeoutError while as many calls hang as the purpose may have threads."""
        held = [c for c in tuple(self._running) if c.is_given_up and c.is_too_long()]
        if len(held) >= THREADS.get(self._purpose, 1):
            held_at = held[0].path
            text = f"an earlier call at {held_at} has been hanging for {_age_s(held[0]):.0f} s"
            raise TimeoutError(errno.ETIMEDOUT, text, path)

    async def wait(self, one: _Call[T], limit_s: float | None) -> None:
        """Wait, without blocking the loop, until the call has finished or its limit is over."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
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
        self.end_wait(one, limit_s)

    def end_wait(self, one: _Call[T], limit_s: float | None) -> None:
        """Give a call up at its limit, unless it has just finished; raises TimeoutError then."""
        if one.give_up():
            with suppress(RuntimeError):  # no loop runs
                self._log_late(one, asyncio.get_running_loop())
            text = f"no result within {limit_s:g} s: its file system may hang"
            raise TimeoutError(errno.ETIMEDOUT, text, one.path)

    def _log_late(self, one: _Call[T], loop: asyncio.AbstractEventLoop) -> None:
        """Log that a call hangs, and later that it returned."""

        def returned() -> None:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(self._log_returned, one.path)

        with one.lock:
            if one.began_s is None or one.finished.is_set():
                return  # it waited behind another call that hangs, or has just finished
            one.notify, one.is_late = returned, True
        logs.emit_once(FileHangs(purpose=self._purpose, path=one.path), self._purpose)
        _notify_receivers()

    def _log_returned(self, path: str) -> None:
        if self.hanging():
            return
        logs.forget(FileHangs, self._purpose)
        logs.emit(FileAnswers(purpose=self._purpose, path=path))
        _notify_receivers()


def _age_s(one: _Call[T]) -> float:
    return time.monotonic() - one.began_s if one.began_s is not None else 0.0


def _notify_receivers() -> None:
    for receive in tuple(_receivers):
        receive()

"""An executor for aiofiles: its calls run in the threads of :mod:`agent.blocking`, with a limit.

Every call of aiofiles gets one; asyncio's shared threads are never used for files (ADR 15).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from functools import partial
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import aiofiles

from agent import blocking

if TYPE_CHECKING:
    from aiofiles.threadpool.binary import AsyncBufferedReader

P = ParamSpec("P")
T = TypeVar("T")


class FileThreads(Executor):
    """Runs calls in the threads of ``purpose``, each within ``blocking.LIMIT_S``.

    Errors are those of :func:`agent.blocking.call`. A file that opens after the limit is closed.
    """

    def __init__(self, purpose: str, path: Path | str) -> None:
        self._purpose = purpose
        self._path = path

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start one call; the future gets its result, or its error. To be called on the loop."""
        future: Future[T] = Future()
        work = partial(fn, *args, **kwargs)
        task = asyncio.get_running_loop().create_task(self._carry_out(work, future))
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
        return future

    @asynccontextmanager
    async def open(
        self, path: Path, opener: Callable[[str, int], int]
    ) -> AsyncIterator[AsyncBufferedReader]:
        """Open a file for reading; aiofiles' own exit would close it in a thread of asyncio."""
        file = await aiofiles.open(path, "rb", opener=opener, executor=self)
        try:
            yield file
        finally:
            await file.close()

    async def _carry_out(self, work: Callable[[], T], future: Future[T]) -> None:
        try:
            result = await blocking.call(
                self._purpose, self._path, work, limit_s=blocking.LIMIT_S, undo=_close
            )
        except Exception as error:  # noqa: BLE001 - handed to the caller
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)


def _close(result: object) -> None:
    """Close a file that was opened after the limit."""
    if isinstance(result, IOBase):
        result.close()

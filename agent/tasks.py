"""Keeps tasks running through expected failures, with delays between the tries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

QUICK_TRIES = 5
QUICK_DELAY_S = 0.03
SLOW_DELAYS_S = (1.0, 2.0, 5.0, 10.0)


class Retry:
    """Delays between tries: a few short ones, then 1, 2, 5 and 10 s, and 10 s from then on.

    ``hint`` means that the cause of the failure may be gone: it ends the current wait, and the
    short delays start again.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._hinted = asyncio.Event()

    def hint(self) -> None:
        """Try again at once, and start from the short delays."""
        self.failures = 0
        self._hinted.set()

    def succeeded(self) -> None:
        """A try succeeded: the next failure starts from the short delays."""
        self.failures = 0

    async def wait(self) -> float:
        """Count a failure and wait until the next try is due; returns the planned delay (s)."""
        delay_s = retry_delay_s(self.failures)
        self.failures += 1
        self._hinted.clear()
        try:
            async with asyncio.timeout(delay_s):
                await self._hinted.wait()
        except TimeoutError:
            pass
        return delay_s


def retry_delay_s(failures: int) -> float:
    """Seconds to wait after ``failures`` failures before this one."""
    if failures < QUICK_TRIES:
        return QUICK_DELAY_S
    return SLOW_DELAYS_S[min(failures - QUICK_TRIES, len(SLOW_DELAYS_S) - 1)]


async def keep_running(
    attempt: Callable[[], Awaitable[None]],
    *,
    expected: tuple[type[BaseException], ...],
    retry: Retry,
    failed: Callable[[BaseException, int], None],
) -> None:
    """Run ``attempt`` in a loop; expected errors are counted, passed to ``failed``, and retried.

    Any other exception is a bug, and is raised: it ends the process with its traceback. An attempt
    that returns is started again at once, and resets the delays. So does an attempt that failed
    after more than the longest delay.
    """
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            await attempt()
        except expected as error:
            if loop.time() - began > SLOW_DELAYS_S[-1]:
                retry.succeeded()
            failed(error, retry.failures)
            await retry.wait()
        else:
            retry.succeeded()


async def run_all(*works: Coroutine[object, object, object]) -> None:
    """Run ``works`` side by side until one fails or all return; raises the failure itself.

    The others are cancelled, and have ended when this returns or raises.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

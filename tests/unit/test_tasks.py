from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agent.tasks import Retry, keep_running, retry_delay_s, run_all

pytestmark = pytest.mark.looptime

RHYTHM = [0.03] * 5 + [1.0, 2.0, 5.0, 10.0, 10.0, 10.0]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_few_quick_retries_are_followed_by_slower_ones_for_ever() -> None:
    assert [retry_delay_s(n) for n in range(11)] == RHYTHM
    assert retry_delay_s(10**9) == 10.0


async def test_each_wait_is_the_next_delay_of_the_sequence() -> None:
    retry = Retry()
    waited = []
    for _ in RHYTHM:
        before = now()
        delay_s = await retry.wait()
        waited.append((delay_s, round(now() - before, 6)))
    assert waited == [(d, d) for d in RHYTHM]


async def test_success_resets_the_delays() -> None:
    retry = Retry()
    for _ in range(7):
        await retry.wait()
    retry.succeeded()
    assert await retry.wait() == 0.03


async def test_a_hint_ends_the_current_wait_and_resets_the_delays() -> None:
    retry = Retry()
    for _ in range(8):
        await retry.wait()
    before = now()
    asyncio.get_running_loop().call_later(3.0, retry.hint)
    assert await retry.wait() == 10.0
    assert now() - before == 3.0
    assert [await retry.wait() for _ in range(6)] == RHYTHM[:6]
    assert now() - before == pytest.approx(3.0 + sum(RHYTHM[:6]))


async def test_a_hint_during_the_attempt_causes_a_quick_retry() -> None:
    retry = Retry()
    for _ in range(8):
        await retry.wait()
    retry.hint()
    assert await retry.wait() == 0.03


class Attempts:
    """Fails as it is told to, then goes on for ever."""

    def __init__(self, *outcomes: float | BaseException) -> None:
        self.outcomes: Iterator[float | BaseException] = iter(outcomes)
        self.began: list[float] = []
        self.failures: list[tuple[str, int]] = []

    async def __call__(self) -> None:
        self.began.append(round(now(), 6))
        outcome = next(self.outcomes, None)
        if outcome is None:
            await asyncio.Event().wait()
        elif isinstance(outcome, float):
            await asyncio.sleep(outcome)
        else:
            raise outcome

    def failed(self, error: BaseException, failures: int) -> None:
        self.failures.append((str(error), failures))

    async def run(self, until_s: float) -> None:
        try:
            async with asyncio.timeout(until_s):
                await keep_running(self, expected=(OSError,), retry=Retry(), failed=self.failed)
        except TimeoutError:
            return


async def test_expected_failures_are_reported_and_tried_again_with_the_delays() -> None:
    attempts = Attempts(*(OSError(f"no {n}") for n in range(7)))
    await attempts.run(100.0)
    assert attempts.began == [0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 1.15, 3.15]
    assert attempts.failures == [(f"no {n}", n) for n in range(7)]


async def test_an_attempt_that_returns_is_repeated_at_once() -> None:
    attempts = Attempts(OSError("a"), OSError("b"), 5.0, OSError("c"))
    await attempts.run(100.0)
    assert attempts.began == [0.0, 0.03, 0.06, 5.06, 5.09]
    assert attempts.failures == [("a", 0), ("b", 1), ("c", 0)]


async def test_an_attempt_that_succeeded_for_long_fails_as_if_for_the_first_time() -> None:
    retry = Retry()
    told: list[tuple[float, int]] = []

    async def attempt() -> None:
        await asyncio.sleep(60.0 if len(told) == 6 else 0.0)
        raise OSError("died")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(63.0):
            await keep_running(
                attempt,
                expected=(OSError,),
                retry=retry,
                failed=lambda _, failures: told.append((round(now(), 2), failures)),
            )
    assert told[5:8] == [(0.15, 5), (61.15, 0), (61.18, 1)]


async def test_an_unexpected_exception_is_raised() -> None:
    attempts = Attempts(OSError("a"), ZeroDivisionError("bug"))
    with pytest.raises(ZeroDivisionError):
        await attempts.run(100.0)
    assert attempts.failures == [("a", 0)]


async def test_works_run_side_by_side_until_all_return() -> None:
    done = []

    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append((seconds, now()))

    await run_all(work(3.0), work(1.0))
    assert done == [(1.0, 1.0), (3.0, 3.0)]


async def test_one_failure_ends_the_other_tasks_before_it_is_raised() -> None:
    ended = []

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.5)
            ended.append(now())

    async def fails() -> None:
        await asyncio.sleep(1.0)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await run_all(patient(), fails(), patient())
    assert ended == [1.5, 1.5]


async def test_cancelling_ends_all_works_first() -> None:
    ended = []

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(now())

    both = asyncio.create_task(run_all(patient(), patient()))
    await asyncio.sleep(2.0)
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    assert ended == [2.0, 2.0]

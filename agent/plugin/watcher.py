"""Registration by kubelet's plugin watcher: waits for its calls, each within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agent.errors import KubeletUnavailableError
from agent.plugin import folders
from agent.plugin.generation import Generation, PluginContext
from agent.wakeup import Wakeup


async def await_verdict(
    resource: str,
    current: Generation,
    context: PluginContext,
    wakeup: Wakeup,
    is_over: Callable[[], bool],
) -> None:
    """Wait until kubelet accepted the socket in the watcher's folder, or ``is_over``.

    Raises KubeletUnavailableError if kubelet does not connect to it, or does not report the
    outcome, in time.
    """

    def is_dialled() -> bool:
        return current.dialled or current.registered or is_over()

    await _await_dial(resource, current, context, wakeup, is_dialled)
    await await_within(
        wakeup,
        context.limits.verdict_s,
        f"{resource}: kubelet called GetInfo, but not NotifyRegistrationStatus",
        lambda: current.registered or is_over(),
    )


async def _await_dial(
    resource: str,
    current: Generation,
    context: PluginContext,
    wakeup: Wakeup,
    is_dialled: Callable[[], bool],
) -> None:
    """Wait until kubelet connects; shorter if the legacy method is left and kubelet runs."""
    limits, methods = context.limits, context.methods
    loop = asyncio.get_running_loop()
    ends_s = current.began_s + limits.undialled_s
    while True:
        since_s = current.kubelet_since_s
        until_s = since_s + limits.unwatched_s
        is_last = methods.mode != "auto" or not loop.time() < until_s < ends_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_s if is_last else until_s):
                await wakeup.until(lambda: is_dialled() or current.kubelet_since_s > since_s)  # noqa: B023
        if is_dialled():
            return
        if current.kubelet_since_s > since_s:
            continue  # kubelet started: it has its time from then on
        if not is_last and await folders.is_kubelet_served(context.roots):
            methods.not_connected(resource, limits.unwatched_s)
            raise _undialled(resource, limits.unwatched_s)
        if is_last:
            raise _undialled(resource, limits.undialled_s)


def _undialled(resource: str, limit_s: float) -> KubeletUnavailableError:
    text = f"kubelet's plugin watcher did not connect within {limit_s:g} s"
    return KubeletUnavailableError(f"{resource}: {text}")


async def await_within(
    wakeup: Wakeup, limit_s: float, otherwise: str, condition: Callable[[], object]
) -> None:
    """Wait for ``condition``; raises KubeletUnavailableError(``otherwise``) after ``limit_s``."""
    try:
        async with asyncio.timeout(limit_s):
            await wakeup.until(condition)
    except TimeoutError:
        raise KubeletUnavailableError(f"{otherwise} within {limit_s:g} s") from None

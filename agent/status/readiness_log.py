"""Says in the log when readiness changes, and what is missing; quiet as long as it stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from agent import blocking, logs
from agent.bus import Bus
from agent.config.watcher import ConfigChanged, ConfigRejected
from agent.model.events import ScanFailing, ScanStalled
from agent.model.plugin_events import RegistrationFailed, StreamLost, StreamOpened
from agent.state_events import PoolsChanged
from agent.status.readiness import Readiness, readiness
from agent.status.state import AgentState

BRIEF_S = 1.0
"""Not being ready for less is no news: a restarted kubelet, a pool that has just come."""
START_S = 10.0
"""How long a start may take before what is missing is said."""
# Not HealthChanged: an Unhealthy device is served, and a burst would have all be looked at again.
_CAUSES = (
    ConfigChanged,
    ConfigRejected,
    PoolsChanged,
    RegistrationFailed,
    ScanFailing,
    ScanStalled,
    StreamLost,
    StreamOpened,
)


class ReadinessLogger:
    """Follows the agent's state for ever; good news is said at once, bad news if it lasts."""

    def __init__(self, bus: Bus, state: Callable[[], AgentState]) -> None:
        self._bus = bus
        self._state = state
        self._said: bool | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Look again after each event that can make a difference."""
        with ExitStack() as subscriptions:
            for cause in _CAUSES:
                subscriptions.callback(self._bus.on(cause, lambda _: self._changed.set()))
            subscriptions.callback(blocking.on_change(self._changed.set))
            while True:
                await self._look()

    async def _look(self) -> None:
        """Say what is new, then wait for the next change."""
        ready = readiness(self._state())
        if ready.ready and self._said is not True:
            self._say(ready)
        elif not ready.ready and self._said is not False:
            ready = await self._still_missing(BRIEF_S if self._said else START_S)
            self._say(ready)
            return
        self._changed.clear()
        await self._changed.wait()

    async def _still_missing(self, limit_s: float) -> Readiness:
        """What readiness is after ``limit_s``, or as soon as it is there."""
        deadline = asyncio.get_running_loop().time() + limit_s
        ready = readiness(self._state())
        while not ready.ready:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return readiness(self._state())
            ready = readiness(self._state())
        return ready

    def _say(self, ready: Readiness) -> None:
        if ready.ready and self._said is not True:
            logs.emit("agent.ready", ready=True)
        elif not ready.ready and self._said is not False:
            logs.emit("agent.ready", ready=False, missing="; ".join(ready.missing))
        self._said = ready.ready

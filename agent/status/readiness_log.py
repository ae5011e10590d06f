"""Logs changes of readiness, with the reasons for not being ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from agent import blocking, logs
from agent.bus import Bus
from agent.config.watcher import ConfigChanged
from agent.events.agent import ReadinessChanged
from agent.events.config import ConfigRejected
from agent.events.host import ScanResumed, ScanStalled
from agent.events.plugin import RegistrationFailed, StreamLost, StreamOpened
from agent.model.events import ScanFailing
from agent.state_events import PoolsChanged
from agent.status.readiness import Readiness, readiness
from agent.status.state import AgentState

BRIEF_S = 1.0
"""A shorter interruption is not logged, for example while kubelet restarts."""
START_S = 10.0
"""How long a start may take before the agent logs why it is not ready."""
# No events of health: Unhealthy devices are served too, and a burst would repeat the whole check.
_CAUSES = (
    ConfigChanged,
    ConfigRejected,
    PoolsChanged,
    RegistrationFailed,
    ScanFailing,
    ScanResumed,
    ScanStalled,
    StreamLost,
    StreamOpened,
)


class ReadinessLogger:
    """Logs that the agent became ready at once, and that it is not ready once that lasts."""

    def __init__(self, bus: Bus, state: Callable[[], AgentState]) -> None:
        self._bus = bus
        self._state = state
        self._logged: bool | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Check again after each event that can change readiness, until cancelled."""
        with ExitStack() as subscriptions:
            for cause in _CAUSES:
                subscriptions.callback(self._bus.on(cause, lambda _: self._changed.set()))
            subscriptions.callback(blocking.on_change(self._changed.set))
            while True:
                await self._look()

    async def _look(self) -> None:
        """Log a change, then wait for the next event."""
        ready = readiness(self._state())
        if ready.ready and self._logged is not True:
            self._log(ready)
        elif not ready.ready and self._logged is not False:
            ready = await self._still_missing(BRIEF_S if self._logged else START_S)
            self._log(ready)
            return
        self._changed.clear()
        await self._changed.wait()

    async def _still_missing(self, limit_s: float) -> Readiness:
        """Readiness after ``limit_s``, or as soon as the agent is ready."""
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

    def _log(self, ready: Readiness) -> None:
        if ready.ready and self._logged is not True:
            logs.emit(ReadinessChanged(ready=True))
        elif not ready.ready and self._logged is not False:
            logs.emit(ReadinessChanged(ready=False, missing="; ".join(ready.missing)))
        self._logged = ready.ready

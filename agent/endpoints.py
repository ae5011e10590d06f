"""Runs the admin socket, HTTP, and the log of readiness.

Kubelet needs none of them, so they are loaded after the first lists; an error here is logged and
affects nothing else.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from agent import blocking, logs
from agent.bus import Bus
from agent.errno_advice import with_advice
from agent.event_history import EventHistory
from agent.events.endpoints import EndpointsUnavailable
from agent.events.plugin import StreamOpened
from agent.options import RunOptions
from agent.status.health_since import HEALTH_EVENTS, LastTransitions
from agent.tasks import Retry, keep_running, run_all

if TYPE_CHECKING:
    from agent.http.counters import Counters
    from agent.model.traffic import Traffic
    from agent.status.report import Title
    from agent.status.state import AgentState

AFTER_S = 1.0
"""When they start at the latest; earlier, as soon as kubelet has its lists."""
_LAST_STREAM_S = 0.05
"""After this time without a new stream, all are open: resources register side by side."""


async def first_lists(bus: Bus, limit_s: float) -> None:
    """Wait until kubelet follows the lists of all pools: imports meanwhile would delay them."""
    with bus.subscribe(StreamOpened) as opened, suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await opened.take()
            while True:
                async with asyncio.timeout(_LAST_STREAM_S):
                    await opened.take()


class Endpoints:
    """A context manager; from entering on, events are remembered and counted. ``run`` serves."""

    def __init__(
        self,
        options: RunOptions,
        bus: Bus,
        state: Callable[[], AgentState],
    ) -> None:
        self.history = EventHistory()
        self.dates = LastTransitions()
        self.counters: Counters | None = None
        """The counters of the metrics; None if HTTP is off."""
        self._options = options
        self._bus = bus
        self._state = state
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(logs.follow(self.history.note))
        for change in HEALTH_EVENTS:
            self._stack.callback(self._bus.on(change, self.dates.note))
        if self._options.http_address:
            from agent.http.counters import Recorder  # noqa: PLC0415 - only if needed

            self.counters = self._stack.enter_context(Recorder(self._bus))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def run(self) -> None:
        """Serve until cancelled; tries again if there are no descriptors left to import modules."""
        await first_lists(self._bus, AFTER_S)
        await keep_running(
            self._serve, expected=(OSError,), retry=Retry(), failed=self._unavailable
        )

    async def _serve(self) -> None:
        await run_all(*self._parts())

    def _unavailable(self, error: BaseException, _: int) -> None:
        logs.emit_once(EndpointsUnavailable(error=with_advice(error)), "")

    def _parts(self) -> Iterator[Coroutine[object, object, None]]:
        """Imports everything here, after the first lists."""
        from agent.host.pci_ids import PciIds  # noqa: PLC0415 - see above
        from agent.status.readiness_log import ReadinessLogger  # noqa: PLC0415 - likewise

        title = PciIds(self._options.roots).title
        yield ReadinessLogger(self._bus, self._state).run()
        yield self._admin(title)
        if self.counters is not None:
            yield self._http(self.counters, title)

    async def _admin(self, title: Title) -> None:
        from agent.admin.server import serve_admin  # noqa: PLC0415 - likewise
        from agent.admin.service import AdminService  # noqa: PLC0415 - likewise

        gc.freeze()  # imported modules stay: collections need not walk through them
        service = AdminService(self._state, self.history, title)
        await serve_admin(self._options.roots.run, service)

    async def _http(self, counters: Counters, title: Title) -> None:
        from agent.http.address import parse_address  # noqa: PLC0415 - only if needed
        from agent.http.serve import serve_http  # noqa: PLC0415 - as above

        address = parse_address(self._options.http_address or "")
        traffic = self._traffic if self._options.vf_metrics else None
        await serve_http(address, self._state, self.history, counters, title, traffic)

    async def _traffic(self) -> Traffic:
        """The traffic of the VFs; none without netlink, since it is asked of this kernel."""
        if not self._options.netlink:
            return {}
        from agent.host.vf_stats import traffic_of_host  # noqa: PLC0415 - as above

        snapshot = self._state().pools.snapshot
        return await blocking.compute("traffic", lambda: traffic_of_host(snapshot))

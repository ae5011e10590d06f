"""Creates the HTTP server from its parts: server, site, metrics."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

from agent import blocking
from agent.event_history import EventHistory
from agent.http.address import Address
from agent.http.counters import Counters
from agent.http.messages import Answer
from agent.http.server import HttpServer
from agent.http.site import Site
from agent.model.traffic import Traffic
from agent.status.report import Title
from agent.status.state import AgentState


async def serve_http(
    address: Address,
    state: Callable[[], AgentState],
    history: EventHistory,
    counters: Counters,
    title: Title,
    traffic: Callable[[], Awaitable[Traffic]] | None = None,
) -> None:
    """Serve until cancelled. ``traffic`` reads the VF counters; None = no VF metrics."""

    async def expose(now: AgentState) -> Answer:
        carried = await traffic() if traffic else None
        counted = copy.deepcopy(counters)
        return await blocking.compute("answers", lambda: _expose(now, counted, carried))

    await HttpServer(address, Site(state, history, expose, title).serve).run()


def _expose(state: AgentState, counters: Counters, traffic: Traffic | None) -> Answer:
    """Write the metrics; the first call imports the library, in a thread."""
    from agent.http.exposition import exposition  # noqa: PLC0415 - probes do not need it

    return exposition(state, counters, traffic)

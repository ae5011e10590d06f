"""The paths of the HTTP server: probes, metrics, status, explanations, events, and the page."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from operator import is_not
from pathlib import Path

from agent import blocking
from agent.event_history import EventHistory
from agent.http.events import event_stream
from agent.http.messages import JSON, Answer, Request, Stream, plain
from agent.status.explain import explain
from agent.status.json_mapping import compact
from agent.status.readiness import Readiness, readiness
from agent.status.report import Title, device_messages, status
from agent.status.state import AgentState

_PAGE = Path(__file__).parent / "page"
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


class Site:
    """Answers requests from the agent's state; a thread makes long answers, one at a time.

    ``exposition`` writes the metrics for a state.
    """

    _edition: int

    def __init__(
        self,
        state: Callable[[], AgentState],
        history: EventHistory,
        exposition: Callable[[AgentState], Awaitable[Answer]],
        title: Title,
    ) -> None:
        self._state = state
        self._history = history
        self._exposition = exposition
        self._title = title
        self._run = secrets.token_hex(4)
        self._working = asyncio.Lock()
        self._whole: tuple[object, ...] = (None, None, None)
        self._small: tuple[object, ...] = ()
        self._editions = count()
        self._paths: dict[str, Callable[[Request], Awaitable[Answer | Stream]]] = {
            "/healthz": self._healthz,
            "/livez": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/status": self._status,
            "/explain": self._explain,
            "/events": self._events,
            "/": self._page,
        }
        self._parts = {f"/page/{part.name}": part for part in sorted(_PAGE.iterdir())}

    async def serve(self, request: Request) -> Answer | Stream:
        """Answer one request."""
        if answer := self._paths.get(request.path):
            return await answer(request)
        if part := self._parts.get(request.path):
            return await _file(part)
        return plain(f"not found; the paths are {', '.join(self._paths)}\n", 404)

    async def _healthz(self, _: Request) -> Answer:
        """Any answer shows that the event loop runs."""
        return plain("ok\n")

    async def _readyz(self, _: Request) -> Answer:
        ready = readiness(self._state())
        return plain(_readiness_text(ready), 200 if ready.ready else 503)

    async def _metrics(self, _: Request) -> Answer:
        async with self._working:
            return await self._exposition(self._state())

    async def _status(self, request: Request) -> Answer:
        """The whole status; ``?devices=0`` omits the devices."""
        state = self._state()
        devices = request.query.get("devices") != "0"
        etag = f'"{self._run}-{self._edition_of(state)}-{devices:d}"'
        headers = (("etag", etag),)
        if request.headers.get("if-none-match") == etag:
            return Answer(status=304, headers=headers)
        async with self._working:
            body = await blocking.compute(
                "answers", lambda: _status_body(state, devices, self._title)
            )
        return Answer(body, JSON, headers=headers)

    def _edition_of(self, state: AgentState) -> int:
        """The number of the state; grows when anything but the time changes.

        Large values are compared by identity.
        """
        whole = (state.pools, state.pools_health, state.links)
        small = (
            state.servers,
            state.config,
            state.scan.stalled_s,
            state.scan.failing,
            state.hanging,
            state.netlink,
        )
        if self._small != small or any(map(is_not, whole, self._whole)):
            self._whole, self._small = whole, small
            self._edition = next(self._editions)
        return self._edition

    async def _explain(self, request: Request) -> Answer:
        subject = request.query.get("subject", "")
        if not subject:
            return plain("name a device, a netdev or a resource: /explain?subject=NAME\n", 400)
        async with self._working:
            state = self._state()  # must run on the loop
            body, is_known = await blocking.compute("answers", lambda: _explained(subject, state))
        return Answer(body, JSON, status=200 if is_known else 404)

    async def _events(self, request: Request) -> Stream:
        return event_stream(self._history, request, self._run)

    async def _page(self, _: Request) -> Answer:
        return await _file(_PAGE / "page.html")


async def _file(path: Path) -> Answer:
    body = await blocking.compute("answers", path.read_bytes)
    return Answer(body, _CONTENT_TYPES[path.suffix])


def _status_body(state: AgentState, devices: bool, title: Title) -> bytes:  # noqa: FBT001 - for a thread
    """Encode device by device: messages of all devices at once would take megabytes."""
    lists = {"devices": device_messages(state)} if devices else {}
    return compact(status(state, title=title), **lists)


def _explained(subject: str, state: AgentState) -> tuple[bytes, bool]:
    """An explanation as JSON, and whether the subject is known."""
    found = explain(subject, state)
    return compact(found), found.device is not None or found.pool is not None


def _readiness_text(ready: Readiness) -> str:
    lines = ["ready" if ready.ready else "not ready"]
    lines += [f"missing: {sentence}" for sentence in ready.missing]
    lines += [f"detail: {sentence}" for sentence in ready.details]
    return "\n".join(lines) + "\n"

"""The admin service: the agent's state as messages, and its events as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import cast

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent import blocking, logs
from agent.event_history import Entry, EventHistory
from agent.events.endpoints import AdminFailed
from agent.rpc.agent import v1
from agent.status.explain import explain
from agent.status.printable import encoded
from agent.status.report import Title, device_messages, status
from agent.status.state import AgentState


class AdminService(v1.AdminBase):
    """Status, explanations and events; long answers are made and encoded in a thread."""

    def __init__(
        self, state: Callable[[], AgentState], history: EventHistory, title: Title
    ) -> None:
        self._state = state
        self._history = history
        self._title = title

    async def status(self, message: v1.StatusRequest) -> v1.StatusReply:
        """The agent's status."""
        state = self._state()

        def make() -> bytes:
            whole = encoded(status(state, title=self._title))
            return b"".join((whole, *_devices(state))) if message.devices else whole

        with _bugs_logged("Status"):
            return cast("v1.StatusReply", await blocking.compute("answers", make))

    async def explain(self, message: v1.ExplainRequest) -> v1.Explanation:
        """Why a device is in its pool or in none, or why a pool has its devices."""
        state = self._state()

        def make() -> bytes:
            return encoded(explain(message.subject, state))

        with _bugs_logged("Explain"):
            return cast("v1.Explanation", await blocking.compute("answers", make))

    async def watch(self, message: v1.WatchRequest) -> AsyncIterator[v1.Event]:
        """Every event after the requested one."""
        after = self._history.newest if message.from_now else message.after
        async with aclosing(self._history.follow(after)) as entries:
            async for entry in entries:
                yield event_message(entry)


def _devices(state: AgentState) -> Iterator[bytes]:
    """The devices of a StatusReply, each encoded as a message.

    Encoded messages concatenate to one message, with the elements of all their lists.
    """
    return (encoded(v1.StatusReply(devices=[device])) for device in device_messages(state))


def event_message(entry: Entry) -> v1.Event:
    """One event of the history."""
    fields = json.dumps(entry.fields, separators=(",", ":"))
    return v1.Event(entry.number, round(entry.time_s, 3), entry.level, entry.name, fields)


@contextmanager
def _bugs_logged(method: str) -> Iterator[None]:
    """Log a bug in making an answer, and answer INTERNAL; the agent goes on."""
    try:
        yield
    except Exception as error:
        logs.emit(AdminFailed(method=method, error=repr(error)))
        raise GRPCError(Status.INTERNAL, "internal error in the agent: see its log") from error

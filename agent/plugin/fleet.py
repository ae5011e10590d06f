"""All pools' servers, kept equal to the offers: the last step on the way from the host to kubelet."""

from __future__ import annotations

import asyncio
from types import TracebackType

from agent.bus import Bus
from agent.model.answers import Answers, Offer
from agent.model.plugin_events import PoolServerState
from agent.plugin.registration import RegistrationMode
from agent.roots import Roots


class Fleet:
    """One server for each offered resource, registered with kubelet and kept so.

    An async context manager, entered inside ``tasks``, whose children the supervisors become.
    Entering removes dead sockets that earlier processes left behind. Leaving ends all streams
    without an empty list (kubelet keeps the capacity), in parallel, in less than a second.
    """

    def __init__(
        self,
        roots: Roots,
        answers: Answers,
        bus: Bus,
        tasks: asyncio.TaskGroup,
        mode: RegistrationMode = "auto",
    ) -> None: ...

    async def __aenter__(self) -> Fleet:
        """Raises SocketPathTooLongError if kubelet's folders leave no room for a socket name."""
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def apply(self, offers: tuple[Offer, ...]) -> None:
        """Make ``offers`` the desired state; returns at once, the supervisors do the work.

        Unchanged pools keep socket, stream and generation; a changed list is one push per stream;
        a resource that is offered no more gets an empty list, then its stream ends.
        """

    def state(self) -> tuple[PoolServerState, ...]:
        """Each pool's standing, sorted by resource; pools on their way out are not listed."""
        raise NotImplementedError

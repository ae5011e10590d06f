"""Limits of the HTTP server, and the slots that bound concurrent answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agent.attrs_classes import frozen

PROBES = frozenset({"/healthz", "/livez", "/readyz"})
"""Paths of kubelet's probes. They have slots of their own, because kubelet restarts the agent if it
gets no answer."""


@frozen
class Limits:
    """Limits on what clients may use."""

    connections: int = 192
    """Open connections. For one more, the oldest idle connection is closed. The limit exceeds the
    100 connections that one turn of the event loop accepts, so each can send its request first."""
    requests: int = 48
    """Concurrent answers, probes not counted."""
    probes: int = 16
    """Concurrent answers to probes."""
    streams: int = 16
    """How many of the requests may follow events."""
    head_bytes: int = 8192
    """Request line and headers together."""
    head_s: float = 10.0
    """From the first byte of a request's head to its last."""
    idle_s: float = 75.0
    """Between two requests: longer than a usual scrape interval."""
    write_s: float = 20.0
    """For a client to receive written data."""
    linger_s: float = 1.0
    """For a client to close the connection after its last answer. Closing it while the client still
    sends would reset the connection, and the answer would be lost (RFC 9112, 9.6)."""


class Slots:
    """Some slots. Nothing is awaited between the check and the reservation."""

    def __init__(self, free: int) -> None:
        self._free = free

    @contextmanager
    def reserve(self) -> Iterator[bool]:
        """Reserve a slot; False = none is free."""
        is_granted = self._free > 0
        self._free -= is_granted
        try:
            yield is_granted
        finally:
            self._free += is_granted


class Places:
    """The slots of one server."""

    def __init__(self, limits: Limits) -> None:
        self._requests = Slots(limits.requests)
        self._probes = Slots(limits.probes)
        self.streams = Slots(limits.streams)
        """A stream needs one in addition to that of its request."""

    def of_request(self, path: str) -> Slots:
        """The slots of which the answer to a request needs one."""
        return self._probes if path in PROBES else self._requests

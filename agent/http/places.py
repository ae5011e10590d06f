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


class Places:
    """The slots of one server. Nothing is awaited between the check and the reservation."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests = 0
        self._probes = 0
        self._streams = 0

    @contextmanager
    def for_request(self, path: str) -> Iterator[bool]:
        """Reserve a slot for the answer to a request; False = none is free."""
        if path in PROBES:
            is_granted = self._probes < self._limits.probes
            self._probes += is_granted
        else:
            is_granted = self._requests < self._limits.requests
            self._requests += is_granted
        try:
            yield is_granted
        finally:
            if path in PROBES:
                self._probes -= is_granted
            else:
                self._requests -= is_granted

    @contextmanager
    def for_stream(self) -> Iterator[bool]:
        """Reserve a slot for a stream, in addition to that of its request; False = none is free."""
        is_granted = self._streams < self._limits.streams
        self._streams += is_granted
        try:
            yield is_granted
        finally:
            self._streams -= is_granted

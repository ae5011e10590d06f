"""Who may be answered at a time: places are taken when they are granted, given back at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agent.attrs_classes import frozen

PROBES = frozenset({"/healthz", "/livez", "/readyz"})
"""Paths that kubelet asks, and restarts the agent if it gets no answer: they have own places."""


@frozen
class Limits:
    """What clients may take of the agent."""

    connections: int = 192
    """Open at a time; for one more, the oldest that waits for its next request is closed. More
    than come in one turn of the loop (100), so that each can ask before it is the oldest."""
    requests: int = 48
    """Answered at a time, probes not counted."""
    probes: int = 16
    """Probes answered at a time."""
    streams: int = 16
    """Of the requests, how many may follow events."""
    head_bytes: int = 8192
    """Request line and headers together."""
    head_s: float = 10.0
    """From the first byte of a request to its last."""
    idle_s: float = 75.0
    """Between two requests: longer than a usual scrape interval."""
    write_s: float = 20.0
    """For a client to take what was written."""
    linger_s: float = 1.0
    """For a client to hang up after its last answer. Closing while it still sends would reset the
    connection, and the answer would be lost (RFC 9112, 9.6)."""


class Places:
    """The places of one server. Nothing is awaited between the count and the place."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests = 0
        self._probes = 0
        self._streams = 0

    @contextmanager
    def for_request(self, path: str) -> Iterator[bool]:
        """Take a place for the answer to a request; False = there is none."""
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
        """Take a place for a stream, beside that of its request; False = there is none."""
        is_granted = self._streams < self._limits.streams
        self._streams += is_granted
        try:
            yield is_granted
        finally:
            self._streams -= is_granted

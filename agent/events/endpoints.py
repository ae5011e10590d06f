"""Events of the HTTP server, the admin socket and their connections."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class HttpListening(LogEvent, name="http.listening", level=INFO):
    """The agent serves probes, metrics, status and the page at this address."""

    address: str


class HttpUnavailable(RepeatedEvent, name="http.unavailable", level=WARNING):
    """The agent cannot listen on the address of --http-address; it retries until it can. This
    is normal while a rolling update replaces the agent that uses the address.
    """

    address: str
    error: str


class HttpFailed(LogEvent, name="http.failed", level=ERROR):
    """A bug in answering a request: that client received an error, and the agent continues.
    Report the bug with this line.
    """

    path: str
    error: str


class PeerDropped(RepeatedEvent, name="peer.dropped", level=WARNING):
    """The agent closed a connection whose peer did not speak valid HTTP/2. Other connections
    are not affected.
    """

    error: str


class EndpointsUnavailable(RepeatedEvent, name="services.unavailable", level=WARNING):
    """The agent could not load its HTTP server or its admin socket. It serves kubelet anyway,
    and retries.
    """

    error: str


class AdminListening(LogEvent, name="admin.listening", level=DEBUG):
    """The agent serves the socket of the commands status, watch and explain."""

    socket: str


class AdminUnavailable(RepeatedEvent, name="admin.unavailable", level=WARNING):
    """The agent cannot create the socket of the commands status, watch and explain. Everything
    else works, and the agent retries. Mount a writable folder there if you want these commands.
    """

    socket: str
    error: str


class AdminFailed(LogEvent, name="admin.failed", level=ERROR):
    """A bug in answering a command: that command received an error, and the agent continues.
    Report the bug with this line.
    """

    method: str
    error: str

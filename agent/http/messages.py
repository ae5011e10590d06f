"""Requests and answers of the HTTP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import attrs

from agent.attrs_classes import frozen

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@frozen
class Request:
    """A GET or HEAD request."""

    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    """The last value of each name."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """By lower-case name."""


@frozen
class Answer:
    """A complete answer."""

    body: bytes = b""
    content_type: str = TEXT
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@frozen
class Stream:
    """An answer that continues until either side closes the connection."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str


def plain(text: str, status: int = 200) -> Answer:
    """A plain-text answer."""
    return Answer(text.encode(), status=status)

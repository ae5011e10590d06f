"""Requests and answers between the server and what it serves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import attrs

from agent.attrs_classes import frozen

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@frozen
class Request:
    """What a client asked for; only reading is possible."""

    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    """The last value of each name."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """By lower-case name."""


@frozen
class Answer:
    """A whole answer."""

    body: bytes = b""
    content_type: str = TEXT
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@frozen
class Stream:
    """An answer without end, until either side closes."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str


def plain(text: str, status: int = 200) -> Answer:
    """An answer of lines for people and probes."""
    return Answer(text.encode(), status=status)

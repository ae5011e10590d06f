"""All log events by name, for the reference page; the agent itself does not import it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

import agent.events
from agent.events.event import LogEvent


def catalog() -> Mapping[str, type[LogEvent]]:
    """Name of the event -> its class, in alphabetical order."""
    for module in iter_modules(agent.events.__path__):
        if module.name != "catalog":
            import_module(f"agent.events.{module.name}")
    return dict(sorted((event.name, event) for event in _named(LogEvent)))


def _named(base: type[LogEvent]) -> Iterator[type[LogEvent]]:
    for event in base.__subclasses__():
        if event.name:
            yield event
        yield from _named(event)

"""Every event of the log stream with level and fields; docs/log-events.md is made from this."""

from __future__ import annotations

from logging import ERROR, INFO

import attrs


@attrs.frozen
class LogEvent:
    """One kind of line in the log stream."""

    name: str
    level: int
    fields: tuple[str, ...]
    """Names of its fields; any of them may be left out where there is nothing to say."""
    meaning: str
    """What happened, and what an operator may do about it."""


_ALL = (
    LogEvent(
        "agent.starting",
        INFO,
        ("version", "pid", "host_root", "kubelet_dir"),
        "The agent starts.",
    ),
    LogEvent("agent.stopping", INFO, ("reason",), "The agent was asked to stop and cleans up."),
    LogEvent("agent.stopped", INFO, (), "Everything is closed; the process ends."),
    LogEvent("agent.failed", ERROR, ("error",), "A bug: the process ends with exit code 1."),
)

EVENTS = {event.name: event for event in _ALL}

"""Events of the configuration file."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class ConfigLoaded(LogEvent, name="config.loaded", level=INFO):
    """The agent loaded the configuration at its start."""

    path: str
    pools: int


class ConfigIdle(LogEvent, name="config.idle", level=WARNING):
    """This node has no configuration yet, so there are no pools. The agent watches for the
    file.
    """

    path: str
    reason: str


class ConfigErrorFound(LogEvent, name="config.error", level=ERROR):
    """This problem makes the agent refuse a pool, or the whole file. The field at is
    file:line:column.
    """

    at: str
    path: str
    message: str
    advice: str | None = None


class ConfigWarningFound(LogEvent, name="config.warning", level=WARNING):
    """The agent worked around a problem. With --strict it is an error."""

    at: str
    path: str
    message: str
    advice: str | None = None


class PoolRefused(LogEvent, name="config.pool_refused", level=ERROR):
    """The agent does not serve a pool because of its errors. It serves the other pools."""

    index: int
    resource: str | None


class ConfigReloaded(LogEvent, name="config.reloaded", level=INFO):
    """The configuration changed, and the agent loaded the new content."""

    path: str
    pools: int


class ConfigUnreadable(RepeatedEvent, name="config.unreadable", level=ERROR):
    """The agent could not read its configuration at the start: the disk or mount fails or
    hangs, or the agent lacks permission. There are no pools until the file can be read; the
    agent retries every 5 s.
    """

    path: str
    reason: str


class ConfigRejected(LogEvent, name="config.rejected", level=ERROR):
    """The configuration changed and is invalid. The agent keeps the last valid configuration."""

    path: str
    reason: str


class ConfigUnchanged(LogEvent, name="config.unchanged", level=INFO):
    """The agent received SIGHUP and read the configuration again: its content is the same."""

    path: str

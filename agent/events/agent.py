"""Events of the agent's start and end, its arguments and its log stream."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class AgentStarting(LogEvent, name="agent.starting", level=INFO):
    """The agent starts with these options."""

    version: str
    pid: int
    host_root: str
    kubelet_dir: str
    config_file: str
    registration: str
    cdi: str
    netlink: str
    http: str


class ReadinessChanged(LogEvent, name="agent.ready", level=INFO):
    """Readiness changed. The field missing lists what is not ready, as /readyz does."""

    ready: bool
    missing: str | None = None


class AgentStopping(LogEvent, name="agent.stopping", level=INFO):
    """The agent received a stop signal and shuts down."""

    reason: str


class AgentStopped(LogEvent, name="agent.stopped", level=INFO):
    """All sockets are closed; the process exits."""


class AgentStoppedLate(LogEvent, name="agent.stopped_late", level=WARNING):
    """A part of the agent did not end within the limit (s). The process exits anyway."""

    limit_s: float


class AgentFailed(LogEvent, name="agent.failed", level=ERROR):
    """The agent has a bug: the process exits with code 1. Report the bug with its
    traceback.
    """

    error: str


class AgentStartFailed(LogEvent, name="agent.start_failed", level=ERROR):
    """The agent cannot run and exits: with code 2 for an invalid configuration or argument,
    else with code 1. This event is logged only with --log-format json; in text format the
    message itself is printed.
    """

    error: str


class LogLinesDropped(LogEvent, name="log.dropped", level=WARNING):
    """Log lines were dropped because nothing read standard error and 1 MiB of lines was
    waiting. This event appears in the log stream only.
    """

    count: int


class LibraryWarned(RepeatedEvent, name="log.library", level=WARNING):
    """A library that the agent uses logged a warning; message is the library's own text. It is
    logged once for each place in the library's code, then at the 10th, 100th ... time.
    """

    library: str
    message: str
    error: str | None = None


class LogDirUnused(LogEvent, name="log.dir_unused", level=WARNING):
    """--log-dir is accepted for compatibility and has no effect: the log goes to standard
    error.
    """

    log_dir: str


class ArgumentsPassedOver(LogEvent, name="arguments.passed_over", level=WARNING):
    """These words of the command line, and everything after them, have no effect, as with the
    Go plugin: they are not options. Remove them. Give a switch its value with an equals sign,
    as in --use-cdi=true.
    """

    words: str

"""Every event of the log stream with level and fields; docs/log-events.md is made from this."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

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
    LogEvent(
        "plugin.registered",
        INFO,
        ("resource", "way", "generation", "socket"),
        "Kubelet accepted the resource.",
    ),
    LogEvent(
        "plugin.registration_failed",
        WARNING,
        ("resource", "error", "times"),
        "Kubelet could not be reached or refused; tried again until it works. Said once, then "
        "at the 10th, 100th ... time.",
    ),
    LogEvent(
        "plugin.stream_opened",
        DEBUG,
        ("resource", "generation"),
        "Kubelet follows the resource's list of devices.",
    ),
    LogEvent(
        "plugin.stream_lost",
        WARNING,
        ("resource", "generation"),
        "Kubelet stopped following the list, by restarting or by an error of its own; the "
        "resource is registered again.",
    ),
    LogEvent(
        "plugin.undone",
        INFO,
        ("resource", "why"),
        "Something took a registration's ground away (its socket, kubelet.sock, its options); "
        "the resource is registered again.",
    ),
    LogEvent(
        "plugin.list_pushed",
        DEBUG,
        ("resource", "healthy", "unhealthy", "sequence"),
        "A full list went to kubelet.",
    ),
    LogEvent(
        "plugin.leftovers_removed",
        INFO,
        ("sockets",),
        "Dead sockets of earlier processes were removed from kubelet's folders.",
    ),
    LogEvent(
        "plugin.other_live",
        WARNING,
        ("resource", "socket"),
        "Another device plugin still serves this resource: remove its DaemonSet from the node, or "
        "both will be registered in turn.",
    ),
    LogEvent("plugin.retired", INFO, ("resource",), "A resource is offered no more."),
)

EVENTS = {event.name: event for event in _ALL}

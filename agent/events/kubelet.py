"""Events of kubelet's pod-resources service, and of the locks that keep two agents apart."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class PodResourcesUnavailable(RepeatedEvent, name="kubelet.pod_resources_unavailable", level=INFO):
    """Kubelet's pod-resources service did not answer, so the agent does not know which pod has
    which device. It uses kubelet's checkpoint and its own record instead. If kubelet's
    pod-resources folder is not mounted, mount it.
    """

    error: str


class HoldersAwaited(LogEvent, name="kubelet.holders_awaited", level=INFO):
    """Kubelet has not yet reported which devices are allocated, and neither its checkpoint nor
    the agent's own record lists any. Until kubelet reports them, but for at most this many
    seconds, a function without a netdev on the host does not join a pool if an earlier pool may
    have given it to a pod.
    """

    seconds: float


class LockWaiting(LogEvent, name="lock.waiting", level=WARNING):
    """Another agent on this node serves these resources. This agent serves its other resources,
    and takes these over when the other agent exits.
    """

    resources: tuple[str, ...]
    holder: str


class LockAcquired(LogEvent, name="lock.acquired", level=INFO):
    """The other agent released these resources; this agent serves them now."""

    resources: tuple[str, ...]


class LockLost(LogEvent, name="lock.lost", level=ERROR):
    """Kubelet's folder was replaced, and another agent locked the resource first. That agent
    serves it now, and this one waits. Configure the resource in only one of the two agents.
    """

    resource: str
    holder: str


class LockUnavailable(RepeatedEvent, name="lock.unavailable", level=WARNING):
    """The agent cannot open a lock file in kubelet's folders. It serves its resources anyway,
    but nothing prevents a second agent from serving the same ones. The agent retries.
    """

    error: str

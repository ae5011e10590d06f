"""Events of allocations and of the CDI specs."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class AllocationMade(LogEvent, name="allocation.made", level=INFO):
    """The agent gave devices to kubelet for a container."""

    resource: str
    devices: str
    nodes: str
    cdi: str
    took_ms: float


class AllocationRefused(LogEvent, name="allocation.refused", level=ERROR):
    """Kubelet asked for devices that the agent cannot give: the pod fails with this message."""

    resource: str
    error: str


class AllocationNotRecorded(RepeatedEvent, name="allocation.not_recorded", level=WARNING):
    """The agent cannot write its own record of allocated devices (in the folder of the
    device-info files). It gives devices anyway; after a restart of the agent, only kubelet's
    checkpoint lists them.
    """

    error: str


class RecordIgnored(LogEvent, name="allocation.record_ignored", level=WARNING):
    """A file of the agent's own record of allocated devices is damaged or cannot be read. The
    agent ignores it: kubelet's pod-resources and checkpoint say which devices are allocated. The
    file is written again with the next allocation of its resource; remove it if there is none.
    """

    file: str


class StaleFactsUsed(LogEvent, name="allocation.stale_facts", level=WARNING):
    """Reading the devices again took too long: the agent used the facts of the last scan."""

    devices: str


class CdiWritten(LogEvent, name="cdi.written", level=DEBUG):
    """The agent updated the CDI spec of a resource."""

    resource: str


class CdiRemoved(LogEvent, name="cdi.removed", level=INFO):
    """The agent removed CDI specs that no configured resource and no running pod needs."""

    files: str


class CdiSkipped(RepeatedEvent, name="cdi.skipped", level=WARNING):
    """An entry of the CDI folder has the name of one of the agent's spec files, but it is not a
    spec file, or it cannot be read or removed. The agent leaves it in place and cleans up the
    others. Remove it.
    """

    file: str
    reason: str


class CdiFailed(RepeatedEvent, name="cdi.failed", level=ERROR):
    """The agent cannot write a CDI spec. It reports the devices whose entries are missing or
    wrong as Unhealthy until it can.
    """

    resource: str
    error: str

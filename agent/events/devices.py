"""Events of devices that join or leave a pool, or change their health."""

from __future__ import annotations

from logging import INFO, WARNING

from agent.events.event import LogEvent


class DevicesChanged(LogEvent, unlogged="device_ids"):
    """Devices of one pool changed in the same way, for the same cause."""

    resource: str
    count: int
    cause: str | None = None
    """Why the devices are, or were, Unhealthy; None for Healthy ones."""
    detail: str | None = None
    devices: str
    """The ids as text, cut if there are many."""
    device_ids: tuple[str, ...]


class DevicesAdded(DevicesChanged, name="device.added", level=INFO):
    """Devices joined a pool, and the agent reported them to kubelet."""


class DevicesRemoved(DevicesChanged, name="device.removed", level=INFO):
    """Devices left a pool: they disappeared from the host, or the selectors no longer match
    them.
    """


class DevicesUnhealthy(DevicesChanged, name="device.unhealthy", level=WARNING):
    """The agent reported these devices to kubelet as Unhealthy, for the given cause. No new pod
    gets them.
    """


class DevicesHealthy(LogEvent, name="device.healthy", level=INFO, unlogged="device_ids"):
    """Devices recovered, and the agent reported them to kubelet as Healthy."""

    resource: str
    count: int
    devices: str
    device_ids: tuple[str, ...]


class DevicesSuspect(LogEvent, name="device.suspect", level=WARNING):
    """These functions of a pool have a driver that creates a network interface, but they have
    no interface, and no pod has them. Pods get them only when no other device is free. Bind the
    driver again, or reset the function.
    """

    resource: str
    count: int
    driver: str
    devices: str


class DevicesRest(LogEvent, name="device.resting", level=INFO):
    """Devices were returned within 90 s of their allocation, or could not be given: the pod may
    have failed because of them. For this many seconds the agent prefers other devices.
    """

    seconds: float
    devices: str


class DeviceInUse(LogEvent, name="device.in_use", level=INFO):
    """The agent keeps a function out of all pools because the host uses it. allowInUse
    overrides this.
    """

    device: str
    how: str

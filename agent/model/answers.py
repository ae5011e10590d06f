"""What a plugin server sends, as values, and the interface that decides on it."""

from __future__ import annotations

from typing import Protocol

import attrs

from agent.attrs_classes import fast_record, frozen


@fast_record
class ListedDevice:
    """One device in kubelet's list."""

    id: str
    healthy: bool = True
    numa_node: int | None = None
    """None = no topology is sent."""


@frozen
class DeviceListing:
    """A resource and the full list to advertise for it, in stable order."""

    resource: str
    devices: tuple[ListedDevice, ...] = ()
    seen_at: float | None = attrs.field(default=None, eq=False)
    """Loop time (s) of the event on the host that led to the list; None = no event did."""


@frozen
class DeviceNode:
    """A device node for a container; permissions ``rw`` (contract of the Go plugin)."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@frozen
class Allocation:
    """The answer to one container's request, everything sorted or in stable order."""

    envs: tuple[tuple[str, str], ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    cdi_devices: tuple[str, ...] = ()


class Backend(Protocol):
    """Decides what a plugin server answers."""

    async def allocate(self, resource: str, device_ids: tuple[str, ...]) -> Allocation:
        """What one container gets for these devices.

        Raises UnknownDeviceError or DeviceNotUsableError; nothing is answered in part.
        """

    async def prefer(
        self, resource: str, available: tuple[str, ...], must_include: tuple[str, ...], size: int
    ) -> tuple[str, ...]:
        """Which devices kubelet should prefer; does not raise for invalid input."""

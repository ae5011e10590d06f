"""Which devices pods hold, as far as is known: pod-resources' word, and our own recent answers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agent.attrs_classes import frozen
from agent.config.schema import SelectorObject
from agent.kinds import Kind
from agent.model.address import parse_bdf
from agent.model.device import Device, Role


@frozen
class PodOwner:
    """Who holds a device; pod and namespace are None until pod-resources lists the device."""

    resource: str
    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    uid: str | None = None
    """The pod's UID, which is all that kubelet's checkpoint says of it."""

    def __str__(self) -> str:
        if self.pod is None and self.uid:
            return f"the pod with the UID {self.uid}, by kubelet's checkpoint"
        if self.pod is None:
            return "a pod that is being started"
        return f"pod {self.namespace}/{self.pod}"


@frozen
class AllocatedDevices:
    """Devices in the hands of pods, by device id."""

    holders: Mapping[str, PodOwner] = attrs.field(factory=dict)
    remembered: Mapping[str, Device] = attrs.field(factory=dict)
    """The last known facts of held devices, for those that vanish from the host."""
    chosen: Mapping[str, SelectorObject] = attrs.field(factory=dict)
    """The selector object that brought a held device to its pool, where that is known."""
    complete: bool = False
    """Whether kubelet has told since the start: until then a device may be held unknown to us."""
    awaited: bool = False
    """Whether kubelet is still expected to say for the first time which devices are held."""

    def of(self, resource: str) -> frozenset[str]:
        """Ids of the devices that pods hold as ``resource``."""
        return frozenset(i for i, holder in self.holders.items() if holder.resource == resource)

    def fact_of(self, device_id: str, kind: Kind) -> Device:
        """The last known facts of a held device, or the little that its id tells."""
        return self.remembered.get(device_id) or unknown_device(device_id, kind)


def unknown_device(device_id: str, kind: Kind) -> Device:
    """A device of which nothing but the id is known: a pod holds it and the host has it no more.

    The id is kubelet's word, and need not be the address that the kind of its pool suggests.
    """
    is_aux = not kind.on_pci
    return Device(
        id=device_id,
        kind=kind,
        role=Role.SF if is_aux else Role.VF,
        pci_address="" if is_aux else _address(device_id),
        vendor="",
        device="",
        pci_class=0,
    )


def _address(device_id: str) -> str:
    try:
        return parse_bdf(device_id)
    except ValueError:
        return ""

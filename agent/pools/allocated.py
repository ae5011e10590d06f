"""Which devices pods hold: as pod-resources reports them, and as we allocated them recently."""

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
    """The pod that holds a device; name and namespace are None until kubelet reports the pod."""

    resource: str
    pod: str | None = None
    namespace: str | None = None
    container: str | None = None
    uid: str | None = None
    """The pod's UID; kubelet's checkpoint has nothing else of the pod."""

    def __str__(self) -> str:
        if self.pod is None and self.uid:
            return f"the pod with the UID {self.uid} (from kubelet's checkpoint)"
        if self.pod is None:
            return "a pod that is being started"
        return f"pod {self.namespace}/{self.pod}"


@frozen
class AllocatedDevices:
    """Devices that pods hold, by device id."""

    holders: Mapping[str, PodOwner] = attrs.field(factory=dict)
    remembered: Mapping[str, Device] = attrs.field(factory=dict)
    """The last known facts of held devices, for those that disappear from the host."""
    chosen: Mapping[str, SelectorObject] = attrs.field(factory=dict)
    """The selector object that chose a held device, if known."""
    complete: bool = False
    """Whether kubelet has reported since the start; before that, other devices may be held too."""
    awaited: bool = False
    """Whether kubelet's first report is still expected."""

    def of(self, resource: str) -> frozenset[str]:
        """Ids of the devices that pods hold as ``resource``."""
        return frozenset(i for i, holder in self.holders.items() if holder.resource == resource)

    def fact_of(self, device_id: str, kind: Kind) -> Device:
        """The last known facts of a held device, or what its id shows."""
        return self.remembered.get(device_id) or unknown_device(device_id, kind)


def unknown_device(device_id: str, kind: Kind) -> Device:
    """A device of which only the id is known: a pod holds it and the host no longer has it.

    The id is kubelet's and may not be an address, even if devices of this type have addresses.
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

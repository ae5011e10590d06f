"""Selector ``vdpaType``: the function has a vDPA device of that type."""

from __future__ import annotations

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, present
from agent.selectors.rdma import IS_RDMA
from agent.selectors.selector import NETDEV_KINDS, PCI_KINDS, Selector, Shape

_DRIVERS = {"vhost": "vhost_vdpa", "virtio": "virtio_vdpa"}


def matches_vdpa_type(device: Device, wanted: str, _snapshot: Snapshot) -> bool:
    """One of its vDPA devices is bound to the driver of that type."""
    return any(vdpa.type == wanted for vdpa in device.vdpa)


def _describe(device: Device, _snapshot: Snapshot) -> str:
    if not device.vdpa:
        return "no vDPA device"
    return ", ".join(
        f"vDPA device {v.name} of type {v.type or 'none (unbound)'}" for v in device.vdpa
    )


def _hints(wanted: str, present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count(
        "vdpaType", lambda d: sorted({v.type or "unbound" for v in d.vdpa})
    )
    if wanted in counts or not wanted:
        return ()
    hint = (
        f"vdpaType: no {present_values.kind} on this host has a vDPA device of type {wanted}; "
        f"present: {present(counts)}; create one with 'vdpa dev add' and bind it to "
        f"{_DRIVERS.get(wanted, wanted)}"
    )
    return (Hint(hint),)


VDPA_TYPE = Selector(
    key="vdpaType",
    kinds=PCI_KINDS & NETDEV_KINDS,
    meaning="The function has a vDPA device of this type; for vhost pods get its device node.",
    allowed="vhost or virtio; not together with isRdma",
    example="vhost",
    shape=Shape.CHOICE,
    choices=("vhost", "virtio"),
    excludes=frozenset({IS_RDMA.key}),
    grants="vdpa_type",
    matches=matches_vdpa_type,
    describe=_describe,
    to_text=str,
    to_json=str,
    diagnose=_hints,
)

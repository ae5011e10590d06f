"""Selector ``ddpProfiles``: the Dynamic Device Personalization package that the NIC has loaded."""

from __future__ import annotations

from agent.model.device import Device
from agent.model.needs import DDP
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, absent, present
from agent.selectors.selector import NETDEV_KINDS, PCI_KINDS, Selector


def matches_ddp_profile(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its DDP profile, or else its PF's, is one of the wanted ones; compared exactly."""
    return device.ddp_profile in wanted


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count(
        "ddpProfiles", lambda d: (d.ddp_profile,) if d.ddp_profile else ()
    )
    return tuple(
        Hint(
            f"ddpProfiles: no {present_values.kind} has the profile {profile!r} on this host; "
            f"present: {present(counts)}",
            profile,
        )
        for profile in absent(wanted, counts)
    )


DDP_PROFILES = Selector(
    key="ddpProfiles",
    kinds=PCI_KINDS & NETDEV_KINDS,
    meaning="The DDP profile that is loaded (devlink info fw.app.name), its own or its PF's.",
    allowed="profile names, compared exactly",
    example=["ICE COMMS Package"],
    matches=matches_ddp_profile,
    needs=lambda _wanted: frozenset({DDP}),
    changes_silently=lambda device: bool(device.total_vfs),
    describe=lambda device, _snapshot: (
        f"DDP profile {device.ddp_profile}" if device.ddp_profile else "no DDP profile known"
    ),
    diagnose=_hints,
)

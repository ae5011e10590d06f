"""What assigning makes: pools with their members and funnels, and a reason for every device."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

import attrs

from agent.config.schema import PoolConfig, SelectorSet
from agent.model.device import Device


@attrs.frozen
class FunnelStep:
    """How many functions were left after one selector of one selector object."""

    selector_object: int
    """Index of the selector object in the pool's list; -1 = before any selector."""
    step: str
    """``kind``, ``not in use``, a selector's key, or ``not taken`` by an earlier pool."""
    wanted: str
    """The configured value as text; empty for built-in steps."""
    remaining: int


@attrs.frozen
class Member:
    """A device in a pool, with the selector object that chose it."""

    device: Device
    selectors: SelectorSet
    selector_object: int = 0
    present: bool = True
    """False = allocated to a pod but gone from the host; kept so that it is told as Unhealthy."""


@attrs.frozen(slots=False)
class Pool:
    """A pool's members in their stable order (PF, then index, then id)."""

    config: PoolConfig
    members: tuple[Member, ...] = ()
    funnel: tuple[FunnelStep, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for people about selectors that cannot match on this host."""

    @property
    def resource(self) -> str:
        """Full resource name."""
        return self.config.resource

    @cached_property
    def by_id(self) -> Mapping[str, Member]:
        """Members by device id."""
        return {m.device.id: m for m in self.members}


class Refusal(StrEnum):
    """Why a device is in no pool."""

    NO_CONFIG = "no pool configured"
    KIND = "no pool of its kind"
    HAS_VFS = "a PF whose VFs exist is never a device"
    IN_USE = "in use by the host"
    SELECTOR = "refused by a selector"


@attrs.frozen
class Reason:
    """Why a device is where it is: its pool, or what refused it."""

    device_id: str
    resource: str | None
    """The pool that has it; None = none."""
    refusal: Refusal | None = None
    text: str = ""
    """One sentence for people, for example ``ens1 carries the default route``."""


@attrs.frozen
class Overlap:
    """Devices that a later pool also wanted; the earlier pool has them."""

    winner: str
    loser: str
    device_ids: tuple[str, ...]


@attrs.frozen(slots=False)
class Pools:
    """The outcome of assigning one snapshot to one configuration."""

    pools: tuple[Pool, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """One for each device of the snapshot, in its order."""
    overlaps: tuple[Overlap, ...] = ()

    @cached_property
    def by_resource(self) -> Mapping[str, Pool]:
        """Pools by full resource name."""
        return {p.resource: p for p in self.pools}

    @cached_property
    def reason_of(self) -> Mapping[str, Reason]:
        """Reasons by device id."""
        return {r.device_id: r for r in self.reasons}

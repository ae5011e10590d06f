"""The result of an assignment: pools with their members and funnels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from agent.attrs_classes import fast_record, frozen
from agent.config.schema import Config, PoolConfig, SelectorObject
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices


@frozen
class FunnelStep:
    """How many functions were left after one selector of one selector object."""

    selector_object: int
    """Index of the selector object in the pool's list; -1 = before any selector."""
    step: str
    """``kind``, ``without VFs``, a selector's key, ``not in use`` by the host, or ``not taken`` by
    an earlier pool; ``with a driver`` and ``without SFs in use`` only if they remove devices."""
    wanted: str
    """The configured value as text; empty for built-in steps."""
    remaining: int


@fast_record
class Member:
    """A device in a pool, with the selector object that chose it."""

    device: Device
    selectors: SelectorObject
    selector_object: int = 0
    present: bool = True
    """False = a pod holds it and the host no longer has it; it stays in the list as Unhealthy."""


@frozen(slots=False)
class Pool:
    """A pool's members in their stable order (PF, then index, then id)."""

    config: PoolConfig
    members: tuple[Member, ...] = ()
    funnel: tuple[FunnelStep, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about selectors that cannot match on this host."""
    minor_notes: frozenset[str] = frozenset()
    """Those notes that are no fault: another value of the list or another object matches."""
    alternatives: tuple[str, ...] = ()
    """The minor notes in short, without counts."""

    @property
    def resource(self) -> str:
        """Full resource name."""
        return self.config.resource

    @cached_property
    def by_id(self) -> Mapping[str, Member]:
        """Members by device id."""
        return {m.device.id: m for m in self.members}


@frozen
class Overlap:
    """Devices that a later pool also selects; the earlier pool has them."""

    winner: str
    loser: str
    device_ids: tuple[str, ...]


@frozen(slots=False)
class Pools:
    """The result of assigning one snapshot by one configuration."""

    snapshot: Snapshot = Snapshot()
    config: Config = Config()
    pools: tuple[Pool, ...] = ()
    in_use: Mapping[str, str] = attrs.field(factory=dict)
    """Device id -> how the host uses it."""
    without_driver: frozenset[str] = frozenset()
    """Ids of devices without a driver: never in a list."""
    sub_functions_in_use: Mapping[str, str] = attrs.field(factory=dict)
    """PF's id -> which of its sub-functions pods use: never in a list."""
    held: AllocatedDevices = AllocatedDevices()
    overlaps: tuple[Overlap, ...] = ()

    @cached_property
    def by_resource(self) -> Mapping[str, Pool]:
        """Pools by full resource name."""
        return {p.resource: p for p in self.pools}

    @cached_property
    def resource_of(self) -> Mapping[str, str]:
        """Device id -> the resource that has it; devices in no pool are omitted."""
        return {m.device.id: p.resource for p in self.pools for m in p.members}

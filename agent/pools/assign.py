"""Assigns the devices of a snapshot to the pools of a configuration: a pure function of values.

Pools are processed in file order, selector objects in list order; the first that matches gets the
device. A device that a pod holds stays in the pool from which it was allocated: kubelet counts it
there, and its facts are incomplete here, since its netdev and RDMA devices are in the pod's network
namespace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

from agent.config.schema import Config, Criterion, PoolConfig
from agent.kinds import Kind
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.pools.guard import functions_in_use
from agent.pools.match_index import MatchIndex
from agent.pools.notes import member_notes, pool_notes
from agent.pools.order import device_order
from agent.pools.pool import FunnelStep, Member, Overlap, Pool, Pools
from agent.pools.suspects import lacks_its_netdev
from agent.pools.usable import pfs_with_sub_functions_in_use, without_driver
from agent.selectors import SELECTORS

_NOTHING_HELD = AllocatedDevices()
_BEFORE_SELECTORS = -1


def assign(snapshot: Snapshot, config: Config, held: AllocatedDevices = _NOTHING_HELD) -> Pools:
    """Assigns each device to at most one pool; members are in stable order."""
    return _Assignment(snapshot, config, held).outcome()


class _Assignment:
    """The state of one run: which devices are taken, and by which pool."""

    def __init__(self, snapshot: Snapshot, config: Config, held: AllocatedDevices) -> None:
        self.snapshot = snapshot
        self.config = config
        self.held = held
        self.in_use = functions_in_use(snapshot)
        self.without_driver = without_driver(snapshot)
        self.sub_functions_in_use = pfs_with_sub_functions_in_use(snapshot, held)
        self.configured = frozenset(p.resource for p in config.pools)
        self.indexes: dict[Kind, MatchIndex] = {}
        self.taken: dict[str, str] = {}
        self.overlaps: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def outcome(self) -> Pools:
        """Processes the pools in order."""
        self.reserve_held()
        pools = tuple(self.pool(p) for p in self.config.pools)
        return Pools(
            snapshot=self.snapshot,
            config=self.config,
            pools=pools,
            in_use=self.in_use,
            without_driver=self.without_driver,
            sub_functions_in_use=self.sub_functions_in_use,
            held=self.held,
            overlaps=tuple(
                Overlap(winner, loser, tuple(sorted(ids)))
                for (winner, loser), ids in self.overlaps.items()
            ),
        )

    def reserve_held(self) -> None:
        """Takes the devices that pods hold, before any selector is evaluated."""
        for device_id, holder in self.held.holders.items():
            self.taken[device_id] = holder.resource

    def of_kind(self, kind: Kind) -> MatchIndex:
        if kind not in self.indexes:
            self.indexes[kind] = MatchIndex(self.snapshot, kind)
        return self.indexes[kind]

    def pool(self, config: PoolConfig) -> Pool:
        index = self.of_kind(config.kind)
        funnel = [
            FunnelStep(_BEFORE_SELECTORS, "kind", str(config.kind), len(index.devices)),
            FunnelStep(_BEFORE_SELECTORS, "without VFs", "", len(index.allocatable)),
        ]
        members = {m.device.id: m for m in self.held_members(config)}
        for number in range(len(config.selectors)):
            chosen, steps = self.choose(index, config, number)
            funnel += steps
            for device in chosen:
                self.taken[device.id] = config.resource
                members[device.id] = Member(device, config.selectors[number], number)
        if self.held.awaited:
            self.withhold(index, config)
        ordered = sorted(members.values(), key=lambda m: device_order(m.device))
        useful = {member.selector_object for member in ordered}
        notes = pool_notes(config, self.snapshot, useful)
        return Pool(
            config,
            tuple(ordered),
            tuple(funnel),
            notes=(*notes.texts, *member_notes(config, ordered, self.snapshot)),
            minor_notes=notes.minor,
            alternatives=notes.alternatives,
        )

    def withhold(self, index: MatchIndex, config: PoolConfig) -> None:
        """Keeps devices from later pools that may have been allocated from this one.

        This is for the time before kubelet's first report. Such a device has no netdev here, and
        the selectors that it does not match are all on facts that moved to the pod.
        """
        for device in index.devices:
            if device.id in self.taken or device.has_vfs or not lacks_its_netdev(device):
                continue
            verdicts = ([self.verdict(c, device) for c in s.criteria] for s in config.selectors)
            if any(False not in found and None in found for found in verdicts):
                self.taken[device.id] = config.resource

    def choose(
        self, index: MatchIndex, config: PoolConfig, number: int
    ) -> tuple[list[Device], list[FunnelStep]]:
        """The devices that one selector object chooses, and its part of the funnel."""
        left, steps = index.allocatable, []
        for criterion, left in index.steps(config.selectors[number]):
            steps.append(FunnelStep(number, criterion.key, _wanted(criterion), len(left)))
        devices = [index.devices[i] for i in sorted(left)]
        for step, refused in (
            ("with a driver", self.without_driver),
            ("without SFs in use", self.sub_functions_in_use),
        ):
            usable = self.without(refused, config, devices)
            if len(usable) < len(devices):
                steps.append(FunnelStep(number, step, "", len(usable)))
            devices = usable
        if not config.allow_in_use:
            devices = self.without(self.in_use, config, devices)
        steps.append(FunnelStep(number, "not in use", "", len(devices)))
        mine = [d for d in devices if self.taken.get(d.id, config.resource) == config.resource]
        steps.append(FunnelStep(number, "not taken", "", len(mine)))
        for device in devices:
            winner = self.taken.get(device.id, config.resource)
            if winner != config.resource and winner in self.configured:
                self.overlaps[winner, config.resource].append(device.id)
        return [d for d in mine if not self.claimed(config, d)], steps

    def without(
        self, refused: Container[str], config: PoolConfig, devices: list[Device]
    ) -> list[Device]:
        """The devices that are not refused; a device that a pod holds from the pool stays."""
        return [d for d in devices if d.id not in refused or self.holds(config, d)]

    def holds(self, config: PoolConfig, device: Device) -> bool:
        holder = self.held.holders.get(device.id)
        return holder is not None and holder.resource == config.resource

    def claimed(self, config: PoolConfig, device: Device) -> bool:
        """Whether the pool has the device already, by an earlier selector object or a pod."""
        return self.taken.get(device.id) == config.resource

    def held_members(self, config: PoolConfig) -> Iterator[Member]:
        """The devices that pods hold from this pool, also if the host no longer has them."""
        for device_id in sorted(self.held.of(config.resource)):
            device = self.snapshot.by_id.get(device_id)
            present = device is not None and device.kind is config.kind and not device.has_vfs
            fact = device if present and device else self.held.fact_of(device_id, config.kind)
            number = self.object_of(config, fact)
            yield Member(fact, config.selectors[number], number, present=present)

    def object_of(self, config: PoolConfig, device: Device) -> int:
        """The selector object that chose a held device: what a pod was promised stays.

        If it is not recorded: the first that the device matches; else the first that no visible
        fact contradicts; else the one that most facts match.
        """
        chosen = self.held.chosen.get(device.id)
        if chosen in config.selectors:
            return config.selectors.index(chosen)
        verdicts = [[self.verdict(c, device) for c in s.criteria] for s in config.selectors]
        for speaks_for in (lambda v: v is True, lambda v: v is not False):
            for number, found in enumerate(verdicts):
                if all(map(speaks_for, found)):
                    return number
        scores = [sum(1 if v is True else -1 for v in found) for found in verdicts]
        return scores.index(max(scores))

    def verdict(self, criterion: Criterion, device: Device) -> bool | None:
        """Whether a device satisfies a criterion; None if that cannot be seen here."""
        selector = SELECTORS[criterion.key]
        if selector.matches(device, criterion.wanted, self.snapshot):
            return True
        return False if selector.is_observable(device) else None


def _wanted(criterion: Criterion) -> str:
    return SELECTORS[criterion.key].text_of(criterion.wanted)

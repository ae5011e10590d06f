"""Answers kubelet's Allocate and GetPreferredAllocation from the current pools."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeVar

import attrs

from agent import blocking, logs
from agent.attrs_classes import frozen
from agent.bus import Bus
from agent.change_log import join_ids
from agent.config.schema import AllocationPolicy
from agent.errno_advice import with_advice
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.events.allocation import AllocationMade, AllocationRefused, StaleFactsUsed
from agent.export.cdi import annotation_key, has_cdi_entry, qualified_name
from agent.export.device_info import write_device_info
from agent.export.given import GivenRecord
from agent.export.specs import CdiMode, CdiSpecs
from agent.health.at_allocate import fault_at_allocate
from agent.model.answers import Allocation
from agent.model.device import Device
from agent.model.events import DevicesAllocated, DevicesResting, DevicesReturned, HostChanged
from agent.model.nodes import HostNodes
from agent.pools.allocated import AllocatedDevices
from agent.pools.allocation import allocation, members_for, node_names
from agent.pools.allocation_tracker import SHORT_LIFE_S
from agent.pools.groups import with_held_mates
from agent.pools.pool import Member, Pool, Pools
from agent.pools.preference import prefer
from agent.pools.suspects import suspicion
from agent.roots import Roots

T = TypeVar("T")

FRESH_WITHIN_S = 0.5
"""How long Allocate waits for freshly read facts before it uses those of the last scan."""
CONFIRM_WITHIN_S = 0.25
"""How long it then waits for the few facts that decide on device nodes."""


@frozen
class Checks:
    """What Allocate checks besides the facts of the devices themselves."""

    held: Callable[[], AllocatedDevices]
    """The newest allocations, which the current pools may not have yet."""
    look: Callable[[HostNodes, frozenset[str]], HostNodes] = lambda known, _: known
    """Takes the known nodes of the host, and reads those of some names again."""
    confirm: Callable[[tuple[Device, ...]], Mapping[str, str]] = lambda _: {}
    """Reads the facts that decide on device nodes, without calls into a driver: device id -> what
    changed."""


class Allocator:
    """Answers kubelet's requests; ``pools`` gives the current pools.

    ``refresh`` reads the facts of some devices again, in a thread: files that a pod's namespace hid
    may be visible again, and no scan may have run since.
    """

    def __init__(  # noqa: PLR0913 - the parts that the daemon puts together
        self,
        roots: Roots,
        bus: Bus,
        pools: Callable[[], Pools],
        refresh: Callable[[tuple[Device, ...]], tuple[Device, ...]],
        *,
        checks: Checks | None = None,
        cdi: CdiMode | None = None,
        specs: CdiSpecs | None = None,
        given: GivenRecord | None = None,
        policy: AllocationPolicy = AllocationPolicy.DEFAULT,
    ) -> None:
        self._roots = roots
        self._bus = bus
        self._pools = pools
        self._refresh = refresh
        self._checks = checks or Checks(held=lambda: pools().held)
        self._giving: Counter[int | None] = Counter()
        """IOMMU groups of the devices in unfinished answers."""
        self._cdi = cdi
        self._specs = specs or CdiSpecs(roots, on=cdi is not None)
        self._given = given
        self._resting: Mapping[str, float] = {}
        bus.on(DevicesResting, self._rest)
        self._given_at: dict[str, float] = {}
        """Device id -> loop time (s) of its newest allocation."""
        self._policy = policy

    def _rest(self, event: DevicesResting) -> None:
        self._resting = event.until

    async def allocate(self, resource: str, device_ids: tuple[str, ...]) -> Allocation:
        """What one container gets; raises UnknownDeviceError or DeviceNotUsableError."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer, members = await self._answer(resource, device_ids)
        except (UnknownDeviceError, DeviceNotUsableError) as error:
            self._bus.publish(AllocationRefused(resource=resource, error=str(error)))
            if isinstance(error, DeviceNotUsableError):
                self._bus.publish(DevicesReturned(resource, (error.device_id,)))
            raise
        given = tuple(m.device.id for m in members)
        self._bus.publish(DevicesAllocated(resource, given))
        self._given_at.update(dict.fromkeys(given, loop.time()))
        self._bus.publish(
            AllocationMade(
                resource=resource,
                devices=join_ids(given),
                nodes=",".join(n.host_path for n in answer.nodes),
                cdi=",".join(answer.cdi_devices),
                took_ms=round((loop.time() - began) * 1000, 1),
            )
        )
        return answer

    async def _answer(
        self, resource: str, device_ids: tuple[str, ...]
    ) -> tuple[Allocation, tuple[Member, ...]]:
        pools = self._pools()
        pool = pools.by_resource.get(resource)
        if pool is None:
            raise UnknownDeviceError(resource, tuple(sorted(set(device_ids))))
        members, nodes = await self._fresh(members_for(pool, device_ids), pools.snapshot.nodes)
        if nodes is not pools.snapshot.nodes:
            pools = attrs.evolve(pools, snapshot=attrs.evolve(pools.snapshot, nodes=nodes))
        self._check(pool, members, pools)
        groups = [m.device.iommu_group for m in members if m.device.is_vfio]
        self._giving.update(groups)
        try:
            answer = allocation(pool.config, members, nodes, device_ids)
            await self._export(pools, pool, members)
            return self._with_cdi(pool, members, answer, nodes), members
        finally:
            self._giving.subtract(groups)

    async def _export(self, pools: Pools, pool: Pool, members: tuple[Member, ...]) -> None:
        """Write the files that the pod needs; raises DeviceNotUsableError."""
        what = "device-info file"
        try:
            await write_device_info(self._roots.device_info, pool.config, members)
            what = "CDI spec"
            await self._specs.renew(pools, pool, members)
        except OSError as error:
            text = f"its {what} cannot be written: {with_advice(error)}"
            raise DeviceNotUsableError(members[0].device.id, text) from error
        if self._given is not None:
            ids = [m.device.id for m in members]
            await self._given.add(pool.resource, ids)
            if other := await self._given.given_by_others(pool.resource, ids):
                text = f"another agent of this node has just given it to a pod as {other[1]}"
                raise DeviceNotUsableError(other[0], text)

    async def _fresh(
        self, members: tuple[Member, ...], nodes: HostNodes
    ) -> tuple[tuple[Member, ...], HostNodes]:
        """The members and the host's nodes, freshly read; of the last scan if reading takes long.

        Raises DeviceNotUsableError for a device that no longer exists, and for one whose nodes may
        now belong to another function.
        """
        devices = tuple(m.device for m in members)

        def read() -> tuple[tuple[Member, ...], HostNodes]:
            by_id = {d.id: d for d in self._refresh(devices)}
            fresh = [
                attrs.evolve(m, device=by_id[m.device.id]) for m in members if m.device.id in by_id
            ]
            return tuple(fresh), self._checks.look(nodes, frozenset(chain(*map(node_names, fresh))))

        result = await _in_time("reread", read, FRESH_WITHIN_S)
        if result is None:
            await self._confirm_nodes(members)
            logs.emit(StaleFactsUsed(devices=join_ids(tuple(d.id for d in devices))))
            return members, nodes
        fresh_ids = {m.device.id for m in result[0]}
        missing = [d.id for d in devices if d.id not in fresh_ids]
        if missing:
            raise DeviceNotUsableError(missing[0], "is no longer on the host")
        return result

    async def _confirm_nodes(self, members: tuple[Member, ...]) -> None:
        """Check that the nodes of the last scan still belong to the same functions."""
        devices = tuple(m.device for m in members if any(True for _ in node_names(m)))
        if not devices:
            return
        changed = await _in_time("confirm", lambda: self._checks.confirm(devices), CONFIRM_WITHIN_S)
        if changed is None:
            text = "sysfs does not answer, so its device nodes may be another function's by now"
            raise DeviceNotUsableError(devices[0].id, text)
        for device_id, what in changed.items():
            raise DeviceNotUsableError(device_id, f"changed since the last scan: {what}")

    def _check(self, pool: Pool, members: tuple[Member, ...], pools: Pools) -> None:
        """Refuse a device that changed since the last scan; it is scanned again, and removed."""
        held = self._checks.held()
        for member in members:
            device = member.device
            fault = fault_at_allocate(pool, member, pools, held)
            if not fault and device.is_vfio and self._giving[device.iommu_group] > 0:
                fault = f"IOMMU group {device.iommu_group} is being given to another container"
            if fault:
                self._bus.publish(HostChanged(frozenset({device.id})))
                raise DeviceNotUsableError(device.id, fault)

    def _with_cdi(
        self, pool: Pool, members: tuple[Member, ...], answer: Allocation, nodes: HostNodes
    ) -> Allocation:
        """With CDI, the runtime adds the nodes: the answer names CDI devices instead."""
        if self._cdi is None:
            return answer
        names = tuple(
            qualified_name(pool.config, m.device.id) for m in members if has_cdi_entry(m, nodes)
        )
        annotations = ((annotation_key(pool.config), ",".join(names)),) if names else ()
        return attrs.evolve(
            answer,
            nodes=(),
            cdi_devices=names if self._cdi in {"field", "both"} else (),
            annotations=annotations if self._cdi in {"annotations", "both"} else (),
        )

    async def prefer(
        self, resource: str, available: tuple[str, ...], must_include: tuple[str, ...], size: int
    ) -> tuple[str, ...]:
        """Which devices kubelet should prefer; ``must_include`` if the pool is unknown."""
        pools = self._pools()
        pool = pools.by_resource.get(resource)
        if pool is None:
            return must_include
        self._note_returned(resource, set(available) - set(must_include))
        policy = pool.config.allocation_policy
        return prefer(
            pool,
            available,
            must_include,
            size,
            self._policy if policy is None else policy,
            pools.held.of(resource),
            last=self._choose_last(pool, pools),
        )

    def _note_returned(self, resource: str, free: Iterable[str]) -> None:
        """Publish the devices that kubelet offers again soon after an allocation: the pod ended.

        When kubelet asks for a preference, it has already released the devices of ended pods.
        """
        now = asyncio.get_running_loop().time()
        recent = {i: at for i, at in self._given_at.items() if now - at < SHORT_LIFE_S}
        returned = tuple(sorted(i for i in free if i in recent))
        self._given_at = {i: at for i, at in recent.items() if i not in returned}
        if returned:
            self._bus.publish(DevicesReturned(resource, returned))

    def _choose_last(self, pool: Pool, pools: Pools) -> Mapping[str, int]:
        """Devices to choose last; those with the highest number come last of all.

        1 = returned soon after an allocation, 2 = looks broken, 3 = a pod has its IOMMU group.
        """
        now = asyncio.get_running_loop().time()
        resting = {i: 1 for i, until in self._resting.items() if until > now}
        broken = {m.device.id: 2 for m in pool.members if suspicion(m.device, pools)}
        shared = dict.fromkeys(with_held_mates(pool.members, pools), 3)
        return {**resting, **broken, **shared}


async def _in_time(purpose: str, work: Callable[[], T], limit_s: float) -> T | None:
    """The result of ``work``, run in a thread; None if it fails or takes over ``limit_s``."""
    try:
        return await blocking.call(purpose, "", work, limit_s=limit_s)
    except OSError:  # it hangs, or no thread or descriptor is left
        return None

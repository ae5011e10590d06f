"""Answers kubelet's Allocate and GetPreferredAllocation from the pools in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import attrs

from agent import blocking, logs
from agent.bus import Bus
from agent.config.schema import AllocationPolicy
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.export.cdi import annotation_key, has_cdi_entry, qualified_name
from agent.export.device_info import write_device_info
from agent.export.given import GivenRecord
from agent.export.specs import CdiMode, CdiSpecs
from agent.health.driver import check_driver
from agent.model.answers import Allocation
from agent.model.device import Device
from agent.model.events import DevicesAllocated
from agent.pools.allocation import allocation, members_for
from agent.pools.preference import prefer
from agent.pools.records import Member, Pool, Pools
from agent.remedies import with_remedy
from agent.roots import Roots
from agent.told import shown

FRESH_WITHIN_S = 0.5
"""How long Allocate waits for facts read anew before it takes those of the last scan."""


class Allocator:
    """Kubelet's questions, answered; ``pools`` gives the pools in force.

    ``reread`` reads some devices' facts anew, in a thread of its own: files that a pod's namespace
    hid may be back, and no scan may have run since.
    """

    def __init__(
        self,
        roots: Roots,
        bus: Bus,
        pools: Callable[[], Pools],
        reread: Callable[[tuple[Device, ...]], tuple[Device, ...]],
        *,
        cdi: CdiMode | None = None,
        specs: CdiSpecs | None = None,
        given: GivenRecord | None = None,
        policy: AllocationPolicy = AllocationPolicy.DEFAULT,
    ) -> None:
        self._roots = roots
        self._bus = bus
        self._pools = pools
        self._reread = reread
        self._cdi = cdi
        self._specs = specs or CdiSpecs(roots, on=cdi is not None)
        self._given = given
        self._policy = policy

    async def allocate(self, resource: str, device_ids: tuple[str, ...]) -> Allocation:
        """What one container gets, or UnknownDeviceError or DeviceNotUsableError: never a part."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer, members = await self._answer(resource, device_ids)
        except (UnknownDeviceError, DeviceNotUsableError) as error:
            logs.emit("allocation.refused", resource=resource, error=str(error))
            raise
        given = tuple(m.device.id for m in members)
        self._bus.publish(DevicesAllocated(resource, given))
        logs.emit(
            "allocation.made",
            resource=resource,
            devices=shown(given),
            nodes=",".join(n.host_path for n in answer.nodes),
            cdi=",".join(answer.cdi_devices),
            took_ms=round((loop.time() - began) * 1000, 1),
        )
        return answer

    async def _answer(
        self, resource: str, device_ids: tuple[str, ...]
    ) -> tuple[Allocation, tuple[Member, ...]]:
        pools = self._pools()
        pool = pools.by_resource.get(resource)
        if pool is None:
            raise UnknownDeviceError(resource, tuple(sorted(set(device_ids))))
        members = await self._fresh(members_for(pool, device_ids))
        self._check(members, pools)
        answer = allocation(pool.config, members, rdma_cm=pools.snapshot.rdma_cm)
        what = "device-info file"
        try:
            await write_device_info(self._roots.device_info, pool.config, members)
            what = "CDI spec"
            await self._specs.renew(pools, pool, members)
        except OSError as error:
            text = f"its {what} cannot be written: {with_remedy(error)}"
            raise DeviceNotUsableError(members[0].device.id, text) from error
        if self._given is not None:
            await self._given.add(resource, [m.device.id for m in members])
        return self._with_cdi(pool, members, answer, rdma_cm=pools.snapshot.rdma_cm), members

    async def _fresh(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """The members with facts read just now; those of the last scan where that takes long."""
        devices = tuple(m.device for m in members)
        read = await self._read_again(devices)
        if read is None:
            logs.emit("allocation.stale_facts", devices=shown(tuple(d.id for d in devices)))
            return members
        now = {d.id: d for d in read}
        gone = [d.id for d in devices if d.id not in now]
        if gone:
            raise DeviceNotUsableError(gone[0], "is gone from the host")
        return tuple(attrs.evolve(m, device=now[m.device.id]) for m in members)

    async def _read_again(self, devices: tuple[Device, ...]) -> tuple[Device, ...] | None:
        """The devices that are there, as they are now; None where that cannot be known soon."""
        try:
            return await blocking.call(
                "reread", "", lambda: self._reread(devices), limit_s=FRESH_WITHIN_S
            )
        except OSError:  # it hangs, or the process has run out of something
            return None

    def _check(self, members: tuple[Member, ...], pools: Pools) -> None:
        """What changed since the last scan: the pool must not promise what is no more so."""
        for member in members:
            if member.device.has_vfs:
                raise DeviceNotUsableError(member.device.id, "is a PF, and has VFs now")
            if use := pools.sub_functions_in_use.get(member.device.id):
                raise DeviceNotUsableError(member.device.id, f"is a PF, and {use}")
            verdict = check_driver(member, pools.snapshot, held=True)
            if not verdict.healthy:
                raise DeviceNotUsableError(member.device.id, verdict.detail)

    def _with_cdi(
        self, pool: Pool, members: tuple[Member, ...], answer: Allocation, *, rdma_cm: bool
    ) -> Allocation:
        """With CDI, the runtime adds the nodes: the answer names devices in their place."""
        if self._cdi is None:
            return answer
        names = tuple(
            qualified_name(pool.config, m.device.id)
            for m in members
            if has_cdi_entry(m, rdma_cm=rdma_cm)
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
        """Which devices kubelet should take; what must be included where the pool is not known."""
        pools = self._pools()
        pool = pools.by_resource.get(resource)
        if pool is None:
            return must_include
        policy = pool.config.allocation_policy
        return prefer(
            pool,
            available,
            must_include,
            size,
            self._policy if policy is None else policy,
            pools.held.of(resource),
        )

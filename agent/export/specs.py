"""Keeps the CDI specs on disk equal to the pools, before their lists are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent import logs
from agent.export.cdi import has_cdi_entry, kind_fault, write_cdi_spec
from agent.export.cdi_leftovers import remove_stale_specs
from agent.health.records import Cause, Health
from agent.pools.records import Pool, Pools
from agent.roots import Roots

CdiMode = Literal["field", "annotations", "both"]


class CdiSpecs:
    """Writes the spec of each pool whose members or holders changed; off = does nothing."""

    def __init__(self, roots: Roots, *, on: bool) -> None:
        self._folder = roots.cdi
        self._on = on
        self._written: dict[str, object] = {}
        self._failed: dict[str, Mapping[str, Health]] = {}
        self._cleaned: object = None

    async def write(self, pools: Pools) -> Mapping[str, Mapping[str, Health]]:
        """Make all specs true; resource -> device id -> health of what could not be written.

        A device whose entry is not on disk must not be given to a pod: its runtime would refuse
        to start the container, again and again.
        """
        if not self._on:
            return {}
        self._forget_all_but({p.resource for p in pools.pools})
        for pool in pools.pools:
            held = pools.held.of(pool.resource) if pools.held.complete else None
            facts = (pool.members, held, pools.snapshot.rdma_cm)
            if self._written.get(pool.resource) != facts:
                await self._write_one(pool, held, facts, rdma_cm=pools.snapshot.rdma_cm)
        await self._clean(pools)
        return self._failed

    def _forget_all_but(self, resources: set[str]) -> None:
        for gone in (self._written.keys() | self._failed.keys()) - resources:
            self._written.pop(gone, None)
            self._failed.pop(gone, None)
            logs.forget("cdi.failed", gone)

    async def _write_one(
        self, pool: Pool, held: frozenset[str] | None, facts: object, *, rdma_cm: bool
    ) -> None:
        if fault := kind_fault(pool.config):
            self._fail(pool, fault, rdma_cm=rdma_cm)
            return
        try:
            changed = await write_cdi_spec(self._folder, pool, held, rdma_cm=rdma_cm)
        except OSError as error:
            self._fail(pool, str(error), rdma_cm=rdma_cm)
            return
        logs.forget("cdi.failed", pool.resource)
        self._failed.pop(pool.resource, None)
        self._written[pool.resource] = facts
        if changed:
            self._cleaned = None
            logs.emit("cdi.written", resource=pool.resource)

    def _fail(self, pool: Pool, error: str, *, rdma_cm: bool) -> None:
        logs.emit_once("cdi.failed", pool.resource, resource=pool.resource, error=error)
        verdict = Health(Cause.NODE, f"its CDI spec cannot be written: {error}")
        self._failed[pool.resource] = {
            m.device.id: verdict for m in pool.members if has_cdi_entry(m, rdma_cm=rdma_cm)
        }
        self._written.pop(pool.resource, None)

    async def _clean(self, pools: Pools) -> None:
        """Remove what nobody needs, whenever that may have become something else."""
        held = frozenset(pools.held.holders) if pools.held.complete else None
        facts = (frozenset(p.resource for p in pools.pools), held)
        if self._cleaned == facts:
            return
        configs = [p.config for p in pools.pools if not kind_fault(p.config)]
        try:
            removed = await remove_stale_specs(self._folder, configs, held)
        except OSError as error:
            logs.emit_once("cdi.failed", "", resource="", error=str(error))
            return
        logs.forget("cdi.failed", "")
        self._cleaned = facts
        if removed:
            logs.emit("cdi.removed", files=",".join(removed))

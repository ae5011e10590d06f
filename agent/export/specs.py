"""Keeps the CDI specs on disk equal to the pools, before their lists are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent import logs
from agent.export.cdi import has_cdi_entry, remove_stale_specs, write_cdi_spec
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
        for pool in pools.pools:
            held = pools.held.of(pool.resource)
            facts = (pool.members, held, pools.snapshot.rdma_cm)
            if self._written.get(pool.resource) != facts:
                await self._write_one(pool, held, facts, rdma_cm=pools.snapshot.rdma_cm)
        await self._clean(pools)
        return self._failed

    async def _write_one(
        self, pool: Pool, held: frozenset[str], facts: object, *, rdma_cm: bool
    ) -> None:
        try:
            changed = await write_cdi_spec(self._folder, pool, held, rdma_cm=rdma_cm)
        except OSError as error:
            logs.emit_once("cdi.failed", pool.resource, resource=pool.resource, error=str(error))
            verdict = Health(Cause.NODE, f"its CDI spec cannot be written: {error}")
            self._failed[pool.resource] = {
                m.device.id: verdict for m in pool.members if has_cdi_entry(m, rdma_cm=rdma_cm)
            }
            return
        logs.forget("cdi.failed", pool.resource)
        self._failed.pop(pool.resource, None)
        self._written[pool.resource] = facts
        if changed:
            logs.emit("cdi.written", resource=pool.resource)

    async def _clean(self, pools: Pools) -> None:
        resources = frozenset(p.resource for p in pools.pools)
        held_ids = frozenset(pools.held.holders)
        if self._cleaned == (resources, held_ids):
            return
        configs = [p.config for p in pools.pools]
        try:
            removed = await remove_stale_specs(self._folder, configs, held_ids)
        except OSError as error:
            logs.emit_once("cdi.failed", "clean", resource="", error=str(error))
            return
        self._cleaned = (resources, held_ids)
        for gone in self._written.keys() - resources:
            del self._written[gone]
            self._failed.pop(gone, None)
        if removed:
            logs.emit("cdi.removed", files=",".join(removed))

"""Keeps the CDI specs on disk equal to the pools, before their lists are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from agent import logs
from agent.config.names import cdi_device_fault
from agent.errno_advice import with_advice
from agent.events.allocation import CdiFailed, CdiRemoved, CdiSkipped, CdiWritten
from agent.export.cdi import (
    cdi_entry,
    cdi_kind,
    has_cdi_entry,
    kind_fault,
    renew_entries,
    standing_entries,
    write_cdi_spec,
)
from agent.export.cdi_leftovers import remove_stale_specs
from agent.health.verdict import Cause, Health
from agent.model.nodes import HostNodes
from agent.pools.pool import Member, Pool, Pools
from agent.roots import Roots

CdiMode = Literal["field", "annotations", "both"]


class CdiSpecs:
    """Writes the spec of each pool whose members or holders changed; off = does nothing.

    The specs of the resources that ``others`` returns belong to other agents of the node.
    """

    def __init__(
        self, roots: Roots, *, on: bool, others: Callable[[], frozenset[str]] = frozenset
    ) -> None:
        self._folder = roots.cdi
        self._sockets = (roots.plugins_registry, roots.device_plugins)
        self._on = on
        self._others = others
        self._written: dict[str, object] = {}
        self._failed: dict[str, Mapping[str, Health]] = {}
        self._astray: dict[str, frozenset[tuple[str, str]]] = {}
        """Of pools that failed: (kind, device) of what their specs name though it is not theirs."""
        self._cleaned: object = None
        self._skipped: set[str] = set()
        """Entries of the folder that the last cleaning left alone."""
        self._lock = asyncio.Lock()
        """One writer at a time: each begins with what is on disk."""

    async def write(self, pools: Pools) -> Mapping[str, Mapping[str, Health]]:
        """Make all specs true; resource -> device id -> health of what could not be written.

        A device whose entry is not on disk must not be given to a pod: its runtime would refuse
        to start the container, again and again. So it does with one that two specs name.
        """
        if not self._on:
            return {}
        others = self._others()
        own = tuple(p for p in pools.pools if p.resource not in others)
        self._forget_all_but({p.resource for p in own})
        async with self._lock:
            for pool in own:
                held = pools.held.of(pool.resource) if pools.held.complete else None
                facts = (pool.members, held, pools.snapshot.nodes)
                if self._written.get(pool.resource) != facts:
                    await self._write_one(pool, held, facts, pools.snapshot.nodes)
            await self._clean(pools, others)
        return {**self._failed, **dict(self._named_twice(pools))} if self._astray else self._failed

    async def renew(self, pools: Pools, pool: Pool, members: Iterable[Member]) -> None:
        """Make the entries of ``members`` true, which a pod is being given with facts read anew.

        From then on they stay as they are. Those of the spec may be older: of the last scan, or of
        a pod that had the device before. Raises OSError.
        """
        if not self._on:
            return
        host = pools.snapshot.nodes
        doubtful = [
            m
            for m in members
            if m.device.id in pools.held.holders
            or cdi_entry(m, host) != cdi_entry(pool.by_id[m.device.id], host)
        ]
        if doubtful:
            async with self._lock:
                await renew_entries(self._folder, pool.config, doubtful, host)

    def _named_twice(self, pools: Pools) -> Iterator[tuple[str, Mapping[str, Health]]]:
        """Devices of other pools that a spec still names which cannot be written."""
        for pool in pools.pools:
            others = {r: names for r, names in self._astray.items() if r != pool.resource}
            kind = cdi_kind(pool.config)
            twice = {
                m.device.id: Health(Cause.NODE, f"the CDI spec of {resource} still names it")
                for resource, names in others.items()
                for m in pool.members
                if (kind, m.device.id) in names
            }
            if twice:
                yield pool.resource, {**twice, **self._failed.get(pool.resource, {})}

    def _forget_all_but(self, resources: set[str]) -> None:
        for gone in (self._written.keys() | self._failed.keys()) - resources:
            self._written.pop(gone, None)
            self._failed.pop(gone, None)
            self._astray.pop(gone, None)
            logs.forget(CdiFailed, gone)

    async def _write_one(
        self, pool: Pool, held: frozenset[str] | None, facts: object, host: HostNodes
    ) -> None:
        if fault := kind_fault(pool.config):
            self._fail(pool, fault, frozenset(), host)
            return
        try:
            changed = await write_cdi_spec(self._folder, pool, held, host)
        except OSError as error:
            named, right = await self._standing(pool, held, host)
            self._fail(pool, with_advice(error), right, host)
            kind, own = cdi_kind(pool.config), {m.device.id for m in pool.members}
            self._astray[pool.resource] = frozenset((kind, i) for i in named - own)
            return
        logs.forget(CdiFailed, pool.resource)
        self._failed.pop(pool.resource, None)
        self._astray.pop(pool.resource, None)
        self._written[pool.resource] = facts
        if nameless := dict(_nameless(pool, host)):
            self._failed[pool.resource] = nameless
        if changed:
            self._cleaned = None
            logs.emit(CdiWritten(resource=pool.resource))

    async def _standing(
        self, pool: Pool, held: frozenset[str] | None, host: HostNodes
    ) -> tuple[frozenset[str], frozenset[str]]:
        """What a spec names and names rightly; nothing where not even that can be seen."""
        try:
            return await standing_entries(self._folder, pool, held, host)
        except OSError:
            return frozenset(), frozenset()

    def _fail(self, pool: Pool, error: str, right: frozenset[str], host: HostNodes) -> None:
        """Note what a pool lacks; the ``right`` devices are on disk already as they should be."""
        logs.emit_once(CdiFailed(resource=pool.resource, error=error), pool.resource)
        verdict = Health(Cause.NODE, f"its CDI spec cannot be written: {error}")
        self._failed[pool.resource] = {
            m.device.id: verdict
            for m in pool.members
            if m.device.id not in right and has_cdi_entry(m, host)
        }
        self._written.pop(pool.resource, None)

    async def _clean(self, pools: Pools, others: frozenset[str]) -> None:
        """Remove what nobody needs, whenever that may have become something else."""
        held = frozenset(pools.held.holders) if pools.held.complete else None
        facts = (frozenset(p.resource for p in pools.pools), held, others)
        if self._cleaned == facts:
            return
        configs = [p.config for p in pools.pools if not kind_fault(p.config)]
        try:
            cleaning = await remove_stale_specs(self._folder, configs, held, others, self._sockets)
        except OSError as error:
            logs.emit_once(CdiFailed(resource="", error=with_advice(error)), "")
            return
        logs.forget(CdiFailed, "")
        self._cleaned = None if cleaning.skipped else facts
        for name in self._skipped - {name for name, _ in cleaning.skipped}:
            logs.forget(CdiSkipped, name)
        self._skipped = {name for name, _ in cleaning.skipped}
        for name, reason in cleaning.skipped:
            path = self._folder / name
            logs.emit_once(CdiSkipped(file=str(path), reason=reason), name)
        if cleaning.removed:
            logs.emit(CdiRemoved(files=",".join(cleaning.removed)))


def _nameless(pool: Pool, host: HostNodes) -> Iterator[tuple[str, Health]]:
    """Devices that need an entry in a spec and can have none, since CDI refuses their names."""
    for member in pool.members:
        fault = cdi_device_fault(member.device.id)
        if fault and has_cdi_entry(member, host):
            yield member.device.id, Health(Cause.NODE, f"{fault}; run without --use-cdi")

"""Keeps the CDI specs on disk in line with the pools, before their lists are sent."""

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
    entries_on_disk,
    has_cdi_entry,
    kind_fault,
    renew_entries,
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
        """Failed pools -> (kind, device) in their specs on disk that now belong to other pools."""
        self._cleaned: object = None
        self._skipped: set[str] = set()
        """Entries of the folder that the last cleaning skipped."""
        self._lock = asyncio.Lock()
        """One writer at a time: each starts with the content on disk."""

    async def write(self, pools: Pools) -> Mapping[str, Mapping[str, Health]]:
        """Bring all specs up to date; returns resource -> device id -> health for those that fail.

        A device whose entry is not on disk must not be allocated, since the runtime would refuse
        to start the container at every attempt. The same applies to a device that two specs name.
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
        """Bring the entries of ``members`` up to date, which are being allocated with new facts.

        They do not change while the pod holds the devices. The entries on disk may be older: of
        the last scan, or of an earlier pod with the device. Raises OSError.
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
        """Devices that are also named by the outdated spec of another pool."""
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
        for removed in (self._written.keys() | self._failed.keys()) - resources:
            self._written.pop(removed, None)
            self._failed.pop(removed, None)
            self._astray.pop(removed, None)
            logs.forget(CdiFailed, removed)

    async def _write_one(
        self, pool: Pool, held: frozenset[str] | None, facts: object, host: HostNodes
    ) -> None:
        if fault := kind_fault(pool.config):
            self._fail(pool, fault, frozenset(), host)
            return
        try:
            changed = await write_cdi_spec(self._folder, pool, held, host)
        except OSError as error:
            named, current = await self._on_disk(pool, held, host)
            self._fail(pool, with_advice(error), current, host)
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

    async def _on_disk(
        self, pool: Pool, held: frozenset[str] | None, host: HostNodes
    ) -> tuple[frozenset[str], frozenset[str]]:
        """As :func:`entries_on_disk`; empty if the spec cannot be read."""
        try:
            return await entries_on_disk(self._folder, pool, held, host)
        except OSError:
            return frozenset(), frozenset()

    def _fail(self, pool: Pool, error: str, current: frozenset[str], host: HostNodes) -> None:
        """Record a failure for all devices except ``current``, whose entries are up to date."""
        logs.emit_once(CdiFailed(resource=pool.resource, error=error), pool.resource)
        verdict = Health(Cause.NODE, f"its CDI spec cannot be written: {error}")
        self._failed[pool.resource] = {
            m.device.id: verdict
            for m in pool.members
            if m.device.id not in current and has_cdi_entry(m, host)
        }
        self._written.pop(pool.resource, None)

    async def _clean(self, pools: Pools, others: frozenset[str]) -> None:
        """Remove unneeded specs if the pools, the held devices or the other agents changed."""
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
    """Devices that need an entry in a spec but cannot have one, since CDI rejects their names."""
    for member in pool.members:
        fault = cdi_device_fault(member.device.id)
        if fault and has_cdi_entry(member, host):
            yield member.device.id, Health(Cause.NODE, f"{fault}; run without --use-cdi")

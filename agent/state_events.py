"""Bus events about pools: what pods hold, what a pass assigned, and whose health changed."""

from __future__ import annotations

from agent.attrs_classes import frozen
from agent.health.pool_health import Change
from agent.pools.allocation_tracker import KubeletReport


@frozen
class HoldersReported:
    """Kubelet reported which pods hold devices; not necessarily a change."""

    report: KubeletReport
    asked_at: float
    """Loop time (s) of the question: devices allocated later may be missing."""


@frozen
class PoolsChanged:
    """A pass assigned other devices to the pools than the pass before."""


@frozen
class HealthChanged:
    """Devices of a resource were added or removed, or changed the health that kubelet gets."""

    resource: str
    changes: tuple[Change, ...]

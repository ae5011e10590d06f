"""Bus events about pools: which devices are allocated, and that a pass changed the pools."""

from __future__ import annotations

from agent.attrs_classes import frozen
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

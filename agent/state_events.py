"""Bus events about what is in force: pools and told health; for status, metrics and the journal."""

from __future__ import annotations

from agent.attrs_classes import frozen
from agent.health.pool_health import Change
from agent.pools.pool import Pools


@frozen
class PoolsChanged:
    """Another assignment is in force."""

    pools: Pools


@frozen
class HealthChanged:
    """Devices of a resource came, went, or changed their health as told to kubelet."""

    resource: str
    changes: tuple[Change, ...]

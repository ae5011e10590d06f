"""Bus events about what is in force: pools and told health; for status, metrics and the journal."""

from __future__ import annotations

from agent.health.outlook import Change
from agent.pools.records import Pools
from agent.records import frozen


@frozen
class PoolsChanged:
    """Another assignment is in force."""

    pools: Pools


@frozen
class HealthChanged:
    """Devices of a resource came, went, or changed their health as told to kubelet."""

    resource: str
    changes: tuple[Change, ...]

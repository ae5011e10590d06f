"""Bus events about what is in force: pools and told health; for status, metrics and the journal."""

from __future__ import annotations

import attrs

from agent.health.outlook import Change
from agent.pools.records import Pools


@attrs.frozen
class PoolsChanged:
    """Another assignment is in force."""

    pools: Pools


@attrs.frozen
class HealthChanged:
    """Devices of a resource came, went, or changed their health as told to kubelet."""

    resource: str
    changes: tuple[Change, ...]

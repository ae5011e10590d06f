"""What a health check is: the record that each file of a check holds, and what checks may read."""

from __future__ import annotations

from collections.abc import Callable

from agent.attrs_classes import frozen
from agent.config.schema import PoolConfig
from agent.health.verdict import Health
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices
from agent.pools.pool import Member


@frozen(eq=False)
class CheckInputs:
    """All that a check may read besides the member itself.

    A pool is assessed again if its members, the snapshot, the devices that pods hold from it or
    from IOMMU groups of its members, or the links of its members change.
    """

    config: PoolConfig
    snapshot: Snapshot
    allocated: AllocatedDevices
    links: Links


MemberCheck = Callable[[Member], Health]
"""The health of one member as far as one check is concerned; ``HEALTHY`` itself if it passes."""


def _every_pool(_config: PoolConfig) -> bool:
    return True


@frozen(eq=False, kw_only=True)
class Check:
    """One health check."""

    causes: frozenset[str]
    """The causes that it gives: stable words for logs and metrics, see docs/troubleshooting.md."""
    prepare: Callable[[CheckInputs], MemberCheck]
    """Returns the check of a member.

    It is called once for each pool that is assessed, so work that members share is done in it.
    """
    applies_to: Callable[[PoolConfig], bool] = _every_pool
    """Whether a pool wants it."""
    reads_links: bool = False
    """Whether it reads :attr:`CheckInputs.links`: then it runs again with each change of a link."""

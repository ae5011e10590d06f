"""The configuration in force: what loading makes and everything above reads."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from enum import StrEnum

from agent.attrs_classes import frozen
from agent.kinds import NET_DEVICE, Kind
from agent.selectors.criteria import Criterion, SelectorObject

__all__ = [
    "AllocationPolicy",
    "Config",
    "Criterion",
    "HealthPolicy",
    "PoolConfig",
    "Problem",
    "SelectorObject",
    "Severity",
]


class AllocationPolicy(StrEnum):
    """How devices are preferred when kubelet asks (``allocationPolicy``)."""

    DEFAULT = ""
    """Lowest PF and index first."""
    PACKED = "packed"
    """Fewest PFs."""
    SPREAD = "spread"
    """One per PF in turn."""
    NUMA = "numa"
    """Fewest NUMA nodes."""


@frozen
class HealthPolicy:
    """The ``health`` block of a pool."""

    link: bool = True
    """Whether a dead link makes a device Unhealthy."""
    recovery_hold_s: float = 1.0
    """How long good news must hold before it is told (``recoveryHoldSeconds``)."""


@frozen
class PoolConfig:
    """One resource pool as configured, values normalised."""

    prefix: str
    name: str
    kind: Kind = NET_DEVICE
    selectors: tuple[SelectorObject, ...] = ()
    exclude_topology: bool = False
    additional_info: Mapping[str, Mapping[str, str]] | None = None
    """``*``, PCI address in normal form or auxiliary name -> key -> value; None = not given."""
    health: HealthPolicy = HealthPolicy()
    advertise_empty: bool = False
    allow_in_use: bool = False
    share_iommu_group: bool = False
    """Whether a device is handed out while another pod has its IOMMU group."""
    allocation_policy: AllocationPolicy | None = None
    """None = the command line's default."""

    @property
    def resource(self) -> str:
        """The full resource name, ``prefix/name``, as pods request it."""
        return f"{self.prefix}/{self.name}"


@frozen
class Config:
    """A whole configuration in force: pools in file order, each resource once."""

    pools: tuple[PoolConfig, ...] = ()

    @property
    def values(self) -> int:
        """How many values all selectors have together; a selector object counts as one."""
        return sum(
            1 + sum(len(c.wanted) if isinstance(c.wanted, Sized) else 1 for c in s.criteria)
            for p in self.pools
            for s in p.selectors
        )


class Severity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    """The pool (or, without a pool, the file) is refused."""
    WARNING = "warning"
    """Applied as far as it goes; an error with ``--strict``."""
    HINT = "hint"
    """Accepted; there is a better spelling."""


@frozen
class Problem:
    """One thing wrong with a configuration file, with where, what was found and what would do."""

    severity: Severity
    message: str
    """One sentence: what was found, what is allowed, the nearest known name."""
    path: str = "$"
    """JSON path, for example ``$.resourceList[0].selectors.vendors[1]``."""
    line: int = 0
    """1-based; 0 = no position."""
    column: int = 0
    """1-based, in characters."""
    pool: int | None = None
    """Index in resourceList of the pool it belongs to; None = the file as a whole."""
    resource: str | None = None
    """Name of that pool's resource, as far as it could be read."""
    advice: str = ""
    """More lines for people: the modern form of an old layout, for example."""

    def render(self, source: str) -> str:
        """``source:line:column: severity: path: message`` as compilers write it."""
        place = f"{source}:{self.line}:{self.column}" if self.line else source
        where = f" {self.path}:" if self.path != "$" else ""
        advice = "".join(f"\n    {line}" for line in self.advice.splitlines())
        return f"{place}: {self.severity}:{where} {self.message}{advice}"

"""The schema of the configuration file: each field of its classes holds all that describes its key.

Loading, the dump, the reference page, the JSON Schema and the chart read the keys from here. A
value is read and written by its type: see ``converter``, which also has the few types that need
more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from enum import StrEnum
from typing import Any

import attrs

from agent.attrs_classes import frozen
from agent.kinds import KINDS, NET_DEVICE, Kind
from agent.selectors.criteria import Criterion, SelectorObject

__all__ = [
    "POOL_KEYS",
    "RESOURCE_LIST",
    "AllocationPolicy",
    "Config",
    "Criterion",
    "HealthPolicy",
    "Key",
    "PoolConfig",
    "SelectorObject",
    "keys_of",
]

RESOURCE_LIST = "resourceList"
SCHEMA_KEY = "$schema"
"""Accepted beside the list for editors, and not read."""
HARMLESS_KEY = "SelectorObj"
"""A field of the Go plugin's own record, which its operator writes; nothing reads it."""
SWITCH: Mapping[str, Any] = {"type": "boolean"}
_METADATA = "key"


@frozen(eq=False)
class Key:
    """A key of the file; by default the key of a boolean."""

    name: str
    meaning: str
    """One sentence or a few, for the reference page."""
    allowed: str = "true or false"
    """The allowed values, for the reference page."""
    example: Any = True
    """A value that loads."""
    schema: Mapping[str, Any] = SWITCH
    """JSON Schema (draft-07) of the value; without the keys of an object, which ``members`` are."""
    is_required: bool = False
    """Whether a pool must have it."""
    is_extension: bool = False
    """Whether the Go plugin ignores it."""
    members: Mapping[str, Key] = {}
    """Field -> key of the object that is its value; empty = the value has no fixed keys."""


def read_from(key: Key, default: Any = attrs.NOTHING) -> Any:  # noqa: ANN401 - as attrs.field
    """A field that is read from a key."""
    return attrs.field(default=default, metadata={_METADATA: key})


def keys_of(record: type[attrs.AttrsInstance]) -> Mapping[str, Key]:
    """Field -> its key."""
    return {field.name: field.metadata[_METADATA] for field in attrs.fields(record)}


class AllocationPolicy(StrEnum):
    """The order in which devices are preferred when kubelet asks (``allocationPolicy``)."""

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

    link: bool = read_from(
        Key("link", "Whether a dead link makes a device Unhealthy; without it true."), default=True
    )
    recovery_hold_s: float = read_from(
        Key(
            "recoveryHoldSeconds",
            "How long a device must be healthy again before kubelet is informed; without it 1.",
            "seconds from 0 to 3600",
            5,
            {"type": "number", "minimum": 0, "maximum": 3600},
        ),
        default=1.0,
    )


@frozen
class PoolConfig:
    """One resource pool as configured, with normalised values."""

    name: str = read_from(
        Key(
            "resourceName",
            "Name part of the resource that pods request. Required.",
            "letters, digits, - _ and ., a letter or digit at both ends, at most 63 characters",
            "intel_sriov_dpdk",
            {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"},
            is_required=True,
        )
    )
    prefix: str = read_from(
        Key(
            "resourcePrefix",
            "Prefix of the resource; without it the one of the command line.",
            "a lower case DNS name, not ending in kubernetes.io",
            "intel.com",
            {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"},
        )
    )
    kind: Kind = read_from(
        Key(
            "deviceType",
            "Which kind of device the pool holds; without it netDevice.",
            f"one of {', '.join(KINDS)}",
            "netDevice",
            {"enum": list(KINDS)},
        ),
        default=NET_DEVICE,
    )
    selectors: tuple[SelectorObject, ...] = read_from(
        Key(
            "selectors",
            "What the pool's devices must be. Required. In an object all selectors must hold; of "
            "several objects the first that matches has the device.",
            "an object, or a list of at least one object",
            [{"vendors": ["8086"], "drivers": ["vfio-pci"]}],
            {
                "if": {"type": "array"},
                "then": {"minItems": 1, "items": {"$ref": "#/definitions/selectors"}},
                "else": {"$ref": "#/definitions/selectors"},
            },
            is_required=True,
        ),
        default=(),
    )
    exclude_topology: bool = read_from(
        Key("excludeTopology", "true = kubelet gets no NUMA nodes of the devices."),
        default=False,
    )
    additional_info: Mapping[str, Mapping[str, str]] | None = read_from(
        Key(
            "additionalInfo",
            "Keys and values for the pods' _INFO variable: * for every device, then those of its "
            "own PCI address or auxiliary name override it key by key.",
            "an object of objects of strings",
            {"*": {"token": "abc"}, "0000:3b:02.1": {"token": "def"}},
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                },
            },
        ),
        default=None,
    )
    """``*``, PCI address in normal form or auxiliary name -> key -> value; None = not given."""
    health: HealthPolicy = read_from(
        Key(
            "health",
            "How the health of the pool's devices is judged.",
            "an object with the following keys",
            {"link": True, "recoveryHoldSeconds": 5},
            {"type": "object"},
            is_extension=True,
            members=keys_of(HealthPolicy),
        ),
        default=HealthPolicy(),
    )
    advertise_empty: bool = read_from(
        Key(
            "advertiseEmpty",
            "true = the resource is registered, with 0 devices, before it has any.",
            is_extension=True,
        ),
        default=False,
    )
    allow_in_use: bool = read_from(
        Key(
            "allowInUse",
            "true = functions that the host uses itself, the default route's too, may be handed "
            "out.",
            example=False,
            is_extension=True,
        ),
        default=False,
    )
    share_iommu_group: bool = read_from(
        Key(
            "shareIommuGroup",
            "true = a VFIO device may be handed out while another pod has a function of its IOMMU "
            "group. For pods that share the group on purpose: only one process can open a group.",
            example=False,
            is_extension=True,
        ),
        default=False,
    )
    allocation_policy: AllocationPolicy | None = read_from(
        Key(
            "allocationPolicy",
            "Which devices kubelet should prefer; without it the policy of the command line. "
            "packed: fewest PFs, spread: one per PF in turn, numa: fewest NUMA nodes, empty: "
            "lowest first.",
            '"packed", "spread", "numa" or ""',
            "packed",
            {"enum": [str(policy) for policy in AllocationPolicy]},
            is_extension=True,
        ),
        default=None,
    )
    """None = the command line's default."""

    @property
    def resource(self) -> str:
        """The full resource name, ``prefix/name``, as pods request it."""
        return f"{self.prefix}/{self.name}"


POOL_KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(PoolConfig).values()}
"""The keys of a pool by name, in the order of the reference page."""


@frozen
class Config:
    """A whole configuration: pools in file order, each resource once."""

    pools: tuple[PoolConfig, ...] = ()

    @property
    def values(self) -> int:
        """How many values all selectors have together; a selector object counts as one."""
        return sum(
            1 + sum(len(c.wanted) if isinstance(c.wanted, Sized) else 1 for c in s.criteria)
            for p in self.pools
            for s in p.selectors
        )

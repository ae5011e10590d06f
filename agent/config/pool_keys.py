"""The keys of a pool: one table for loading, messages, the documentation and the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.attrs_classes import frozen
from agent.config.schema import AllocationPolicy
from agent.kinds import KINDS

RESOURCE_LIST = "resourceList"
SCHEMA_KEY = "$schema"
"""Accepted beside the list for editors, and not read."""
MAX_RECOVERY_HOLD_S = 3600.0
_TEXT = {"type": "string"}
SWITCH = {"type": "boolean"}


@frozen(eq=False)
class PoolKey:
    """One key beside ``resourceName``."""

    key: str
    meaning: str
    allowed: str
    example: Any
    schema: Mapping[str, Any]
    """JSON Schema (draft-07) of the value."""
    is_extension: bool = False
    """Not known to the Go plugin, which passes over it."""


_ALL = (
    PoolKey(
        "resourceName",
        "Name part of the resource that pods request. Required.",
        "letters, digits, - _ and ., a letter or digit at both ends, at most 63 characters",
        "intel_sriov_dpdk",
        {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"},
    ),
    PoolKey(
        "resourcePrefix",
        "Prefix of the resource; without it the one of the command line.",
        "a lower case DNS name, not ending in kubernetes.io",
        "intel.com",
        {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"},
    ),
    PoolKey(
        "deviceType",
        "Which kind of device the pool holds; without it netDevice.",
        f"one of {', '.join(KINDS)}",
        "netDevice",
        {"enum": list(KINDS)},
    ),
    PoolKey(
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
    ),
    PoolKey(
        "excludeTopology",
        "true = kubelet is not told the devices' NUMA nodes.",
        "true or false",
        True,
        SWITCH,
    ),
    PoolKey(
        "additionalInfo",
        "Keys and values for the pods' _INFO variable: * for every device, then those of its own "
        "PCI address or auxiliary name override it key by key.",
        "an object of objects of strings",
        {"*": {"token": "abc"}, "0000:3b:02.1": {"token": "def"}},
        {
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": _TEXT},
        },
    ),
    PoolKey(
        "health",
        "link: whether a dead link makes devices Unhealthy (true). recoveryHoldSeconds: how long "
        "good news must hold before kubelet is told (1).",
        f"an object; seconds from 0 to {MAX_RECOVERY_HOLD_S:g}",
        {"link": True, "recoveryHoldSeconds": 5},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "link": SWITCH,
                "recoveryHoldSeconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": int(MAX_RECOVERY_HOLD_S),
                },
            },
        },
        is_extension=True,
    ),
    PoolKey(
        "advertiseEmpty",
        "true = the resource is registered, with 0 devices, before it has any.",
        "true or false",
        True,
        SWITCH,
        is_extension=True,
    ),
    PoolKey(
        "allowInUse",
        "true = functions that the host uses itself, the default route's too, may be handed out.",
        "true or false",
        False,
        SWITCH,
        is_extension=True,
    ),
    PoolKey(
        "shareIommuGroup",
        "true = a VFIO device may be handed out while another pod has a function of its IOMMU "
        "group. For pods that share the group on purpose: only one process can open a group.",
        "true or false",
        False,
        SWITCH,
        is_extension=True,
    ),
    PoolKey(
        "allocationPolicy",
        "Which devices kubelet should prefer; without it the policy of the command line. packed: "
        "fewest PFs, spread: one per PF in turn, numa: fewest NUMA nodes, empty: lowest first.",
        '"packed", "spread", "numa" or ""',
        "packed",
        {"enum": [str(policy) for policy in AllocationPolicy]},
        is_extension=True,
    ),
)

POOL_KEYS: Mapping[str, PoolKey] = {key.key: key for key in _ALL}
"""Canonical key -> what it means, in the order in which documentation lists them."""

HARMLESS_KEY = "SelectorObj"
"""A field of the Go plugin's own record, which its operator writes out; never read by anyone."""

"""Functions that are not allocated in their present state, regardless of the configuration.

There are two rules. A function needs a driver (the Go plugin has the same rule). A PF is not
allocated while pods use its sub-functions, since all of them send through the PF's port. PFs with
VFs are excluded earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from agent.model.device import Device, Role
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices

NO_DRIVER = "no driver is bound, so no pod could use it"
_SHOWN = 3
"""How many sub-functions one sentence names."""


def without_driver(snapshot: Snapshot) -> frozenset[str]:
    """Ids of the functions and auxiliary devices without a driver."""
    return frozenset(d.id for d in snapshot.devices if d.driver is None and d.lacks_driver)


def pfs_with_sub_functions_in_use(snapshot: Snapshot, held: AllocatedDevices) -> Mapping[str, str]:
    """PF's id -> which of its sub-functions pods use, in one sentence.

    A sub-function is in use if kubelet reports that a pod holds it, or if it has a driver but
    neither a netdev nor a vDPA device here: then its netdev is in the network namespace of a pod
    that kubelet may not have reported yet.
    """
    role = Role.SF
    used: defaultdict[str, list[str]] = defaultdict(list)
    for device in snapshot.devices:
        if device.role is role and device.pf_address and _is_used(device, held):
            used[device.pf_address].append(device.id)
    return {pf: f"pods use its sub-functions: {_some(names)}" for pf, names in used.items()}


def _is_used(sub_function: Device, held: AllocatedDevices) -> bool:
    if sub_function.id in held.holders:
        return True
    return not (sub_function.lacks_driver or sub_function.netdevs or sub_function.vdpa)


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown

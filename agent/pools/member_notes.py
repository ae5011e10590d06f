"""What people should know of a pool's members beside its selectors: nodes and IOMMU groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.config.schema import PoolConfig
from agent.model.nodes import VHOST_NET, VHOST_TUN
from agent.model.snapshot import Snapshot
from agent.pools.allocation import missing_vhost_nodes
from agent.pools.groups import group_fault, shared_groups
from agent.pools.pool import Member

_MODULE_OF = {VHOST_NET: "vhost_net", VHOST_TUN: "tun"}


def member_notes(
    config: PoolConfig, members: Sequence[Member], snapshot: Snapshot
) -> Iterator[str]:
    """One sentence for each thing, with what to do about it."""
    if any(s.need_vhost_net for s in config.selectors):
        yield from _vhost_note(snapshot)
    if not snapshot.shared_groups:
        return
    blocked = [m for m in members if group_fault(m.device, snapshot)]
    if blocked:
        first = blocked[0].device
        yield f"{len(blocked)} of its devices cannot be used: {group_fault(first, snapshot)}"
    if not config.share_iommu_group:
        yield from shared_groups(members, snapshot)


def _vhost_note(snapshot: Snapshot) -> Iterator[str]:
    missing = missing_vhost_nodes(snapshot.nodes)
    if missing:
        modules = " ".join(_MODULE_OF[node] for node in missing)
        yield (
            f"needVhostNet: the host has no {' and no '.join(missing)}, so pods get neither of the "
            f"two nodes; load the kernel's module (modprobe {modules})"
        )

"""Notes on a pool: selectors that match nothing on this host, device nodes, IOMMU groups.

One configuration serves nodes with different hardware: a list names the drivers or devices of all
of them, and a pool has a selector object for each model of NIC. A value that is absent here is then
no fault as long as another value of the list, or another object of the pool, matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from agent.attrs_classes import frozen
from agent.config.schema import PoolConfig
from agent.model.nodes import VHOST_NET, VHOST_TUN
from agent.model.snapshot import Snapshot
from agent.pools.allocation import missing_vhost_nodes
from agent.pools.groups import group_fault, shared_groups
from agent.pools.pool import Member
from agent.selectors import SELECTORS
from agent.selectors.present_values import Hint, first_texts, present_values, some

_MODULE_OF = {VHOST_NET: "vhost_net", VHOST_TUN: "tun"}


@frozen
class Notes:
    """Sentences about one pool, in the order of its selector objects."""

    texts: tuple[str, ...] = ()
    """Cause and fix, one for each value or selector that matches nothing."""
    minor: frozenset[str] = frozenset()
    """Those texts that are no fault."""
    alternatives: tuple[str, ...] = ()
    """The minor ones, a sentence for each list, without counts, so that the text is stable."""


def pool_notes(config: PoolConfig, snapshot: Snapshot, useful: AbstractSet[int]) -> Notes:
    """The notes of a pool; ``useful`` are the selector objects that chose devices."""
    counted = present_values(config.kind, snapshot)
    texts: dict[str, None] = {}
    faults: set[str] = set()
    alternatives: dict[str, None] = {}
    for number, selectors in enumerate(config.selectors):
        diagnoses = [(c, SELECTORS[c.key].diagnose(c.wanted, counted)) for c in selectors.criteria]
        is_for_others = any(hint.absent for _, hints in diagnoses for hint in hints)
        is_spare = bool(useful) and number not in useful and is_for_others
        for criterion, hints in diagnoses:
            texts.update((text, None) for text in first_texts(hints))
            absent = [hint for hint in hints if hint.absent]
            has_others = bool(absent) and len(absent) < len(criterion.wanted)
            minor = absent if has_others or is_spare else []
            if not is_spare:
                faults.update(first_texts([h for h in hints if not (minor and h.absent)]))
            if minor:
                others = "other values of the list do"
                if not has_others:
                    others = "another selector object of the pool does"
                alternatives[_alternative(criterion.key, config, minor, others)] = None
    return Notes(tuple(texts), frozenset(texts.keys() - faults), tuple(alternatives))


def _alternative(key: str, config: PoolConfig, absent: list[Hint], others: str) -> str:
    values = some(hint.absent for hint in absent)
    return f"{key}: no {config.kind} on this host matches {values}; {others}"


def member_notes(
    config: PoolConfig, members: Sequence[Member], snapshot: Snapshot
) -> Iterator[str]:
    """Sentences about device nodes and IOMMU groups of a pool's members: cause and fix."""
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

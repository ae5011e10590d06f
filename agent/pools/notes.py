"""What selectors of a pool can match nothing on this host, and which of that is no fault.

One configuration serves nodes of several kinds: a list names the drivers or devices of all of them,
and a pool has a selector object for each kind of NIC. What is absent is then no fault as long as
another value of the list, or another object of the pool, matches.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from agent.attrs_classes import frozen
from agent.config.schema import PoolConfig
from agent.model.snapshot import Snapshot
from agent.selectors import SELECTORS
from agent.selectors.present_values import Hint, first_texts, present_values, some


@frozen
class Notes:
    """Sentences for people about one pool, in the order of its selector objects."""

    texts: tuple[str, ...] = ()
    """Cause and fix, one for each value or selector that can match nothing."""
    minor: frozenset[str] = frozenset()
    """Those of them that are no fault."""
    alternatives: tuple[str, ...] = ()
    """The minor ones in a sentence for each list, without counts, so that it stays as it is."""


def pool_notes(config: PoolConfig, snapshot: Snapshot, useful: AbstractSet[int]) -> Notes:
    """The notes of a pool; ``useful`` are the selector objects that brought it devices."""
    counted = present_values(config.kind, snapshot)
    texts: dict[str, None] = {}
    faults: set[str] = set()
    alternatives: dict[str, None] = {}
    for number, selectors in enumerate(config.selectors):
        found = [(c, SELECTORS[c.key].diagnose(c.wanted, counted)) for c in selectors.criteria]
        is_for_others = any(hint.absent for _, diagnose in found for hint in diagnose)
        is_spare = bool(useful) and number not in useful and is_for_others
        for criterion, diagnose in found:
            texts.update((text, None) for text in first_texts(diagnose))
            absent = [hint for hint in diagnose if hint.absent]
            has_others = bool(absent) and len(absent) < len(criterion.wanted)
            minor = absent if has_others or is_spare else []
            if not is_spare:
                faults.update(first_texts([h for h in diagnose if not (minor and h.absent)]))
            if minor:
                others = "other values of the list do"
                if not has_others:
                    others = "another selector object of the pool does"
                alternatives[_alternative(criterion.key, config, minor, others)] = None
    return Notes(tuple(texts), frozenset(texts.keys() - faults), tuple(alternatives))


def _alternative(key: str, config: PoolConfig, absent: list[Hint], others: str) -> str:
    values = some(hint.absent for hint in absent)
    return f"{key}: no {config.kind} on this host matches {values}; {others}"

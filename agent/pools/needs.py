"""Which facts the selectors of a configuration need that a scan reads only on request."""

from __future__ import annotations

from agent.config.schema import Config
from agent.selectors import SELECTORS


def needs_of(config: Config) -> frozenset[str]:
    """The names of these facts, see :mod:`agent.model.needs`."""
    return frozenset(
        need
        for pool in config.pools
        for selectors in pool.selectors
        for criterion in selectors.criteria
        for need in SELECTORS[criterion.key].needs(criterion.wanted)
    )

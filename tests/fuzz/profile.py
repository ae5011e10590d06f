"""How hard the fuzz tests try: short and seeded within ``tox``, long and at random in its own env.

``SRIOV_AGENT_FUZZ=50`` makes fifty times as many examples, drawn anew in each run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

FACTOR = int(os.environ.get("SRIOV_AGENT_FUZZ", "1"))
_IS_SHORT = FACTOR == 1


def fuzz(examples: int, *, steps: int = 20) -> settings:
    """Settings of one test: ``examples`` in the short run, ``steps`` for each of a state machine.

    The short run is the same each time; what a long one finds is kept for the next runs.
    """
    database = None if _IS_SHORT else DirectoryBasedExampleDatabase(".hypothesis/examples")
    return settings(
        max_examples=examples * FACTOR,
        stateful_step_count=steps if _IS_SHORT else steps * 3,
        derandomize=_IS_SHORT,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=set(Phase) - {Phase.explain},
        print_blob=not _IS_SHORT,
        database=database,
    )

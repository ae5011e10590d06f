"""Removes what an agent that was killed in the middle of a write left beside our files."""

from __future__ import annotations

from agent.export.atomic import remove_drafts
from agent.roots import Roots


def remove_leftover_drafts(roots: Roots) -> tuple[str, ...]:
    """Remove the drafts in the folders that we write, before anything is written there.

    For the start, once the node is ours: no other agent writes then. Returns the names removed.
    """
    return tuple(
        name for folder in (roots.device_info, roots.cdi) for name in remove_drafts(folder)
    )

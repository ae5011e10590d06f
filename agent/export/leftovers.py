"""Removes what an agent that was killed in the middle of a write left beside our files."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from agent.export.atomic import in_folder, remove_drafts
from agent.roots import Roots


async def remove_leftover_drafts(roots: Roots) -> tuple[str, ...]:
    """Remove the drafts in the folders that we write, before anything is written there.

    For the start, once the node is ours: no other agent writes then. Returns the names removed. A
    folder that hangs keeps its drafts until the next start.
    """
    removed: list[str] = []
    for folder in (roots.device_info, roots.cdi):
        with suppress(OSError):
            removed += await in_folder(folder, partial(remove_drafts, folder))
    return tuple(removed)

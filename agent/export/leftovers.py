"""Removes the drafts of an agent that was killed while it wrote a file."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from agent.export.atomic import in_folder, remove_drafts
from agent.roots import Roots


async def remove_leftover_drafts(roots: Roots) -> tuple[str, ...]:
    """Remove the drafts in the folders of device-info files and CDI specs; returns their names.

    To be called at the start, before the agent writes there. A folder that hangs keeps its drafts
    until the next start.
    """
    removed: list[str] = []
    for folder in (roots.device_info, roots.cdi):
        with suppress(OSError):
            removed += await in_folder(folder, partial(remove_drafts, folder))
    return tuple(removed)

"""Runs the agent as ``python -m agent`` does; SIGUSR1 makes it write its figures as a log line."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import threading
from types import FrameType

from agent.__main__ import main


def _tell_figures(_number: int, _frame: FrameType | None) -> None:
    gc.collect()
    tasks = sorted(task.get_name() for task in asyncio.all_tasks())
    figures = {
        "event": "soak.figures",
        "tasks": len(tasks),
        "names": tasks,
        "threads": threading.active_count(),
        "objects": _objects(),
    }
    # Past the stream's buffer, which may be in use in this very moment.
    os.write(2, json.dumps(figures).encode() + b"\n")


def _objects() -> int:
    """How many objects the collector knows, counted in one go.

    Between two steps of Python another thread might run, and fail to build a tuple to which the
    list of all objects refers.
    """
    return next(map(len, iter(gc.get_objects, None)))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _tell_figures)
    main()

"""Runs work in kernel namespaces of its own: a thread leaves the shared ones."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from unittest.mock import patch

import pytest

from agent import blocking

T = TypeVar("T")

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def in_own_network(work: Callable[[], T]) -> T:
    """Do ``work`` in a network namespace of its own; its threads and children are inside too."""
    return _apart(CLONE_NEWNET, work)


def in_own_mounts(work: Callable[[], T]) -> T:
    """Do ``work`` where mounts are its own, and end with it."""

    def private() -> T:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        return work()

    return _apart(CLONE_NEWNS, private)


def ip(*commands: str) -> None:
    """Run commands of iproute2 as one batch, in the namespace of the calling thread."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def _apart(flags: int, work: Callable[[], T]) -> T:
    """In a thread of its own: only that thread, and what it starts, changes its namespaces.

    The agent keeps the threads of its blocking calls: inside, it starts others.
    """

    def leave_and_work() -> T:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(flags) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        with patch.dict(blocking._workers, clear=True):
            return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(leave_and_work).result()

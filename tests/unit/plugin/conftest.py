from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import logs
from agent.roots import Roots

# Or pytest-asyncio makes a loop for the main thread, which nobody closes.
asyncio.set_event_loop(None)


@pytest.fixture
def roots() -> Iterator[Roots]:
    """A host root with kubelet's folders, short enough for sockets."""
    host = Path(tempfile.mkdtemp(prefix="node"))
    (host / "var/lib/kubelet/device-plugins").mkdir(parents=True)
    yield Roots(host)
    shutil.rmtree(host, ignore_errors=True)


@pytest.fixture(autouse=True)
def _fresh_log_counts() -> None:
    logs.forget_all()

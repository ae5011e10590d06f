from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from agent.roots import Roots
from tests.support.log_lines import LogLines, captured, forget_all

settings.register_profile("agent", deadline=None)  # machines differ; time is not what is tested
settings.load_profile("agent")
asyncio.set_event_loop(None)  # looptime asks for one in plain tests, and nobody would close it


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """The log stream of this test."""
    with captured() as lines:
        yield lines


@pytest.fixture
def roots() -> Iterator[Roots]:
    """A host root with kubelet's folders, short enough for sockets."""
    host = Path(tempfile.mkdtemp(prefix="node"))
    (host / "var/lib/kubelet/device-plugins").mkdir(parents=True)
    yield Roots(host)
    shutil.rmtree(host, ignore_errors=True)


@pytest.fixture(autouse=True)
def _fresh_log_counts() -> None:
    forget_all()

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.log_lines import LogLines, captured

settings.register_profile("agent", deadline=None)  # machines differ; time is not what is tested
settings.load_profile("agent")
asyncio.set_event_loop(None)  # looptime asks for one in plain tests, and nobody would close it


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """The log stream of this test."""
    with captured() as lines:
        yield lines

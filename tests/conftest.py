"""For every suite: no event loop is left over for the main thread to find and complain about."""

from __future__ import annotations

import asyncio


def pytest_configure() -> None:
    """pytest-asyncio asks for the current loop once, and would make one that nobody closes."""
    asyncio.set_event_loop(None)

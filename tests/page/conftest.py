"""A real browser on the page of a running agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.conftest import host, kubelet

__all__ = ["browser", "host", "kubelet"]

# For busy machines; less than the 15 s after which the page asks without any event.
expect.set_options(timeout=12_000)

CHROMIUM = os.environ.get("SRIOV_AGENT_CHROMIUM") or shutil.which("chromium")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium, of the system."""
    if CHROMIUM is None:
        pytest.fail("no chromium found: install it, or set SRIOV_AGENT_CHROMIUM")
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        yield started
        started.close()

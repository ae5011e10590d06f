"""A real browser on the page of a running agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, sync_playwright

from agent.host.layout import HostBuilder
from tests.support.kubelet import Kubelet

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


@pytest.fixture
def host() -> Iterator[HostBuilder]:
    """An empty host with kubelet's legacy folder; its path is short, as socket paths must be."""
    with TemporaryDirectory(prefix="node-") as folder:
        builder = HostBuilder(Path(folder))
        builder.roots.device_plugins.mkdir(parents=True)
        yield builder


@pytest.fixture
def kubelet(host: HostBuilder) -> Iterator[Kubelet]:
    """A kubelet stand-in in the host's folder."""
    with Kubelet(host.roots.kubelet) as running:
        yield running

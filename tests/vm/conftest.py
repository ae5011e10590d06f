"""Tests of `guest/` run in a virtual machine: this session of pytest is the host or the guest."""

from __future__ import annotations

import os

import pytest

from .boot import IN_GUEST
from .relay import Relay, is_for_guest, obstacle


def pytest_configure(config: pytest.Config) -> None:
    if IN_GUEST not in os.environ:
        config.pluginmanager.register(Relay(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IN_GUEST in os.environ:
        return
    ours = list(filter(is_for_guest, items))
    if ours and (reason := obstacle()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))

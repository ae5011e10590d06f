"""A guest's half of the reports: each goes to the host through a port of the machine."""

from __future__ import annotations

import json
import os
from typing import IO

import pytest

from tests.vm.wiring import IN_GUEST, REPORTS_PORT

from .machine import port


class _Sender:
    def __init__(self, config: pytest.Config, wire: IO[bytes]) -> None:
        self._config = config
        self._wire = wire

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._send(report)

    def _send(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._wire.write(json.dumps(data, default=str).encode() + b"\n")
        self._wire.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Send reports if this is a guest."""
    if IN_GUEST in os.environ:
        config.pluginmanager.register(_Sender(config, port(REPORTS_PORT).open("wb")))

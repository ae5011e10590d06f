"""What the tests of the second guest share, and its half of the reports."""

from __future__ import annotations

from tests.vm.guest.node import node
from tests.vm.guest.reports import pytest_configure

__all__ = ["node", "pytest_configure"]

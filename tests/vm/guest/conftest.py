"""What the tests of this guest share, and its half of the reports."""

from __future__ import annotations

from .node import node
from .reports import pytest_configure

__all__ = ["node", "pytest_configure"]

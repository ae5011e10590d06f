"""The tests of `guest/` run in a virtual machine; this session is the host's or the guest's."""

from __future__ import annotations

import os

from .wiring import IN_GUEST

if IN_GUEST not in os.environ:
    from .relay import pytest_collection_modifyitems, pytest_configure

    __all__ = ["pytest_collection_modifyitems", "pytest_configure"]

"""The tests of two folders run in virtual machines; this session is the host's or a guest's."""

from __future__ import annotations

import os

from .wiring import IN_GUEST

if IN_GUEST not in os.environ:
    from .relay import pytest_collection_modifyitems, pytest_configure

    __all__ = ["pytest_collection_modifyitems", "pytest_configure"]

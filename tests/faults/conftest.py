"""What the fault tests share: a laid-out node, kubelet's stand-in, and mounts of their own."""

from __future__ import annotations

import ctypes
import os
import subprocess

import pytest

from tests.e2e.conftest import config, host, kubelet
from tests.support.inside import CLONE_NEWNS

__all__ = ["config", "host", "kubelet", "own_mounts"]


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """What the tests mount is seen by them and by what they start, and ends with them."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"no mount namespace can be had: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)

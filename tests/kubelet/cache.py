"""Where the suite keeps what it downloads and builds: outside the checkout, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tests.vm.cache import made_once

__all__ = ["cache_folder", "made_once"]


def cache_folder() -> Path:
    """The suite's own folder in the developer's cache."""
    user = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    project = os.environ.get("SRIOV_AGENT_CACHE") or Path(user) / "sriov-node-agent"
    return Path(project).absolute() / "kubelet"

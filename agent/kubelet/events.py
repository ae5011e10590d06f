"""Bus events: something in kubelet's folders may have changed, so subscribers check it again."""

from __future__ import annotations

from pathlib import Path

from agent.attrs_classes import frozen


@frozen
class KubeletSocketAppeared:
    """kubelet.sock was created; kubelet may not listen on it yet."""


@frozen
class PluginSocketChanged:
    """A socket file in one of kubelet's folders was created, removed or replaced."""

    path: Path


@frozen
class LockFilesChanged:
    """A lock file was created, removed, or closed by a process: it may be free now."""


@frozen
class CheckpointChanged:
    """Kubelet wrote its checkpoint file, or removed it."""


@frozen
class PluginFoldersChanged:
    """A kubelet folder was created or removed, or events were lost: anything may have changed."""

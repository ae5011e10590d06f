"""Bus events that say that something may have changed about kubelet, so that others look again."""

from __future__ import annotations

from pathlib import Path

from agent.attrs_classes import frozen


@frozen
class KubeletSocketAppeared:
    """kubelet.sock was made; kubelet may not listen on it yet."""


@frozen
class KubeletSocketVanished:
    """kubelet.sock was removed."""


@frozen
class PluginSocketChanged:
    """A socket file came to, or left, one of kubelet's folders; or another file took its name."""

    path: Path


@frozen
class LockFilesChanged:
    """A lock file was made, removed, or closed by a process: it may be free now."""


@frozen
class CheckpointChanged:
    """Kubelet wrote its checkpoint file, or the file is gone."""


@frozen
class PluginFoldersChanged:
    """A folder of kubelet's came or went, or events were lost: anything may have changed."""

"""Bus events that say that something may have changed about kubelet, so that others look again."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class KubeletSocketAppeared:
    """kubelet.sock was made; kubelet may not listen on it yet."""


@attrs.frozen
class KubeletSocketVanished:
    """kubelet.sock was removed."""


@attrs.frozen
class PluginSocketGone:
    """A plugin's socket file left one of kubelet's folders."""

    path: Path


@attrs.frozen
class PluginFoldersChanged:
    """A folder of kubelet's came or went, or events were lost: anything may have changed."""

"""How a plugin server becomes known to kubelet: found by the plugin watcher, or by Register."""

from __future__ import annotations

from typing import Literal

from grpclib.client import Channel

from agent.errors import KubeletUnavailableError
from agent.kubelet.wire import ask
from agent.plugin.service import API_VERSION
from agent.roots import Roots
from agent.rpc import v1beta1

Way = Literal["watcher", "legacy"]
RegistrationMode = Literal["auto", "watcher", "legacy"]

REGISTER_DEADLINE_S = 10.0
"""Kubelet itself gives up dialling back after ten seconds."""


def choose_way(mode: RegistrationMode, roots: Roots) -> Way:
    """The way to go now; ``auto`` is the watcher's wherever its folder exists."""
    if mode != "auto":
        return mode
    return "watcher" if roots.plugins_registry.is_dir() else "legacy"


async def register(
    roots: Roots, resource: str, endpoint: str, options: v1beta1.DevicePluginOptions
) -> None:
    """Announce the socket ``endpoint`` (a file name) the legacy way.

    Kubelet dials the server behind it before it answers. Raises KubeletUnavailableError.
    """
    request = v1beta1.RegisterRequest(
        version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options
    )

    async def call(channel: Channel) -> None:
        await v1beta1.RegistrationStub(channel).register(request)

    await ask(roots.kubelet_socket, call, deadline_s=REGISTER_DEADLINE_S)


def require_kubelet_socket(roots: Roots) -> None:
    """Raises KubeletUnavailableError while kubelet.sock does not exist."""
    if not roots.kubelet_socket.exists():
        raise KubeletUnavailableError(f"{roots.kubelet_socket}: no such socket")

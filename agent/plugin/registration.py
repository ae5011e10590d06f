"""How a plugin server becomes known to kubelet: found by the plugin watcher, or by Register."""

from __future__ import annotations

from typing import Literal

from grpclib.client import Channel

from agent.kubelet.wire import ask
from agent.plugin.service import API_VERSION
from agent.roots import Roots
from agent.rpc import v1beta1

Way = Literal["watcher", "legacy"]
RegistrationMode = Literal["auto", "watcher", "legacy"]

REGISTER_DEADLINE_S = 10.0
"""Kubelet itself gives up dialling back after ten seconds."""


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

"""How a plugin server registers with kubelet: through the plugin watcher, or by Register."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from grpclib.client import Channel

from agent import logs
from agent.errors import KubeletUnavailableError
from agent.events.plugin import PluginFolderUnwatched
from agent.plugin.service import API_VERSION
from agent.roots import Roots
from agent.rpc import v1beta1
from agent.transport.grpc import unary_call

RegistrationMethod = Literal["watcher", "legacy"]
RegistrationMode = Literal["auto", "watcher", "legacy"]

REGISTER_DEADLINE_S = 10.0
"""Kubelet itself stops connecting back after ten seconds."""


class RegistrationMethods:
    """Which method the resources of this process use; ``auto`` learns what kubelet supports.

    ``auto`` is the watcher method if its folder exists. Some kubelets watch another folder, for
    example if the container runtime created the mount point: then kubelet connects to no socket in
    it, and kubelet.sock is used until that fails.
    """

    def __init__(self, mode: RegistrationMode, folder: Path) -> None:
        self.mode = mode
        self._folder = folder
        self.is_unwatched = False
        """Whether kubelet runs, but connects to no socket in the watcher's folder."""

    @property
    def note(self) -> str:
        """A note on the method for status; empty = none."""
        if not self.is_unwatched:
            return ""
        return (
            f"kubelet connects to no socket in {self._folder}, so resources are registered by "
            "kubelet.sock. Mount the folder that this kubelet watches, or run with "
            "--registration legacy"
        )

    def not_connected(self, resource: str, limit_s: float) -> None:
        """Kubelet runs, but did not connect to a socket in the watcher's folder in time."""
        self.is_unwatched = True
        logs.emit_once(
            PluginFolderUnwatched(resource=resource, folder=str(self._folder), after_s=limit_s),
            str(self._folder),
        )

    def legacy_failed(self) -> None:
        """A running kubelet did not accept a registration by kubelet.sock: try the watcher."""
        self.is_unwatched = False

    def connected(self) -> None:
        """Kubelet connected to a socket in the watcher's folder."""
        self.is_unwatched = False
        logs.forget(PluginFolderUnwatched, str(self._folder))


async def register(
    roots: Roots, resource: str, endpoint: str, options: v1beta1.DevicePluginOptions
) -> None:
    """Register the socket ``endpoint`` (a file name) by kubelet.sock, the legacy method.

    Kubelet connects to the plugin's server before it answers. Raises KubeletUnavailableError.
    """
    request = v1beta1.RegisterRequest(
        version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options
    )

    async def call(channel: Channel) -> None:
        await v1beta1.RegistrationStub(channel).register(request)

    await unary_call(
        roots.kubelet_socket,
        call,
        failure=KubeletUnavailableError,
        deadline_s=REGISTER_DEADLINE_S,
    )

"""How a plugin server becomes known to kubelet: found by the plugin watcher, or by Register."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from grpclib.client import Channel

from agent import logs
from agent.errors import KubeletUnavailableError
from agent.plugin.service import API_VERSION
from agent.roots import Roots
from agent.rpc import v1beta1
from agent.transport.grpc import unary_call

RegistrationMethod = Literal["watcher", "legacy"]
RegistrationMode = Literal["auto", "watcher", "legacy"]

REGISTER_DEADLINE_S = 10.0
"""Kubelet itself gives up dialling back after ten seconds."""


class RegistrationMethods:
    """Which way the resources of this process register; ``auto`` learns what kubelet uses.

    ``auto`` is the watcher's way where its folder exists. Some kubelets follow another folder, for
    example where the container runtime made the mount point: then nobody dials the sockets in it,
    and kubelet.sock is the way until that fails.
    """

    def __init__(self, mode: RegistrationMode, folder: Path) -> None:
        self.mode = mode
        self._folder = folder
        self.is_unwatched = False
        """Whether nobody dialled the sockets in the watcher's folder, though kubelet runs."""

    @property
    def note(self) -> str:
        """What people should know of the way; empty = nothing."""
        if not self.is_unwatched:
            return ""
        return (
            f"kubelet dials no socket in {self._folder}: resources are registered by kubelet.sock. "
            "Mount the folder that this kubelet follows, or run with --registration legacy"
        )

    def nobody_dialled(self, resource: str, limit_s: float) -> None:
        """A socket was in the watcher's folder for long enough while kubelet.sock was served."""
        self.is_unwatched = True
        logs.emit_once(
            "plugin.unwatched",
            str(self._folder),
            resource=resource,
            folder=self._folder,
            after_s=limit_s,
        )

    def legacy_failed(self) -> None:
        """A kubelet that runs did not take a registration by kubelet.sock: the watcher is next."""
        self.is_unwatched = False

    def dialled(self) -> None:
        """Kubelet dialled a socket in the watcher's folder: it is watched."""
        self.is_unwatched = False
        logs.forget("plugin.unwatched", str(self._folder))


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

    await unary_call(
        roots.kubelet_socket,
        call,
        failure=KubeletUnavailableError,
        deadline_s=REGISTER_DEADLINE_S,
    )

"""Gathers what is known of the holders of devices: kubelet's two witnesses, and the own record.

Everything is read beside the loop, and within a limit: a folder that hangs must hold up nothing.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Collection, Mapping

from agent import blocking
from agent.bus import Bus
from agent.export.given import Records, read_records
from agent.kubelet.checkpoint import CheckpointReader, Claims
from agent.kubelet.events import CheckpointChanged, PluginFoldersChanged
from agent.kubelet.podresources import ANSWER_LIMIT_S, PodResourcesRead, list_pod_resources
from agent.kubelet.sources import Sources
from agent.options import RunOptions
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import KubeletReport

READ_AGAIN_S = 20.0
"""After so long the checkpoint is read again though no event told of a change."""
FILE_LIMIT_S = 1.0
"""For a file of kubelet's, or of the own record."""


class Witnesses:
    """Asks kubelet, and reads the files; ``resources`` gives the names of the configured pools."""

    def __init__(
        self,
        options: RunOptions,
        bus: Bus,
        resources: Callable[[], Collection[str]],
    ) -> None:
        self._roots = options.roots
        self._resources = resources
        node = options.node_name or platform.node() or None
        self._sources = Sources(options.pod_name, options.pod_namespace, node)
        self._checkpoint = CheckpointReader(options.roots)
        self._claims: Claims | None = None
        self._read_at = -READ_AGAIN_S
        for hint in (CheckpointChanged, PluginFoldersChanged):
            bus.on(hint, self._forget)

    def _forget(self, _: object) -> None:
        self._read_at = -READ_AGAIN_S

    async def ask(self, reading: Awaitable[Claims | None] | None = None) -> PodResourcesRead:
        """All that kubelet says now; ``reading`` is a reading of the checkpoint under way.

        The checkpoint comes first: what it names and pod-resources does not list was freed since.
        """
        asked_at = asyncio.get_running_loop().time()
        claims = await (reading or self.claims())
        holdings = await list_pod_resources(
            self._roots, self._resources(), self._sources, limit_s=ANSWER_LIMIT_S
        )
        return PodResourcesRead(holdings, asked_at, claims)

    async def claims(self) -> Claims | None:
        """What kubelet's checkpoint says is given; None where it says nothing.

        It is read when kubelet has written it, and once in a while in case no event told of that.
        """
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= READ_AGAIN_S:
            self._read_at = now
            self._claims = await self._read_claims()
        return self._claims

    async def _read_claims(self) -> Claims | None:
        path = self._roots.kubelet_checkpoint
        try:
            return await blocking.call(
                "checkpoint", path, self._checkpoint.read, limit_s=FILE_LIMIT_S
            )
        except OSError:
            return None

    async def records(self) -> Records:
        """What earlier runs of the agent recorded."""
        roots = self._roots
        try:
            return await blocking.call(
                "records", roots.device_info, lambda: read_records(roots), limit_s=FILE_LIMIT_S
            )
        except OSError:
            return Records()


def report_of(
    read: PodResourcesRead, configured: Collection[str], known: Collection[str]
) -> KubeletReport:
    """What kubelet said of our functions: it tells of every plugin's devices.

    Ours are those of the ``configured`` resources, and those whose ids are ``known``.
    """

    def is_ours(resource: str, device_id: str) -> bool:
        return resource in configured or device_id in known

    claims = read.claims
    if claims is not None:
        claims = frozenset(c for c in claims if is_ours(c.resource, c.device_id))
    if read.holdings is None:
        return KubeletReport(claims=claims)
    pods: Mapping[str, PodOwner] = {
        device_id: PodOwner(h.resource, h.pod, h.namespace, h.container)
        for device_id, h in read.holdings.by_device.items()
        if is_ours(h.resource, device_id)
    }
    return KubeletReport(pods, read.holdings.is_complete, claims)

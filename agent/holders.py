"""Gathers which pods hold devices: pod-resources, kubelet's checkpoint, and the agent's own record.

Everything is read in threads, and within a limit: a folder that hangs must not delay anything.
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
from agent.kubelet.pod_list import AgentPod
from agent.kubelet.podresources import ANSWER_LIMIT_S, PodResourcesRead, list_pod_resources
from agent.options import RunOptions
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import KubeletReport
from agent.state_events import HoldersReported

READ_AGAIN_S = 20.0
"""After this time the checkpoint is read again, in case an event was missed."""
FILE_LIMIT_S = 1.0
"""Limit for reading a file of kubelet's, or the agent's own record."""


class HolderSources:
    """Asks kubelet, and reads the files; publishes HoldersReported for each answer of kubelet.

    ``resources`` gives the names of the configured pools, ``device_ids`` the ids of all devices of
    the last scan. Both distinguish our devices from those of other plugins.
    """

    def __init__(
        self,
        options: RunOptions,
        bus: Bus,
        resources: Callable[[], Collection[str]],
        device_ids: Callable[[], Collection[str]],
    ) -> None:
        self._roots = options.roots
        self._bus = bus
        self._resources = resources
        self._device_ids = device_ids
        node = options.node_name or platform.node() or None
        self._own_pod = AgentPod(options.pod_name, options.pod_namespace, node)
        self._checkpoint = CheckpointReader(options.roots)
        self._claims: Claims | None = None
        self._read_at = -READ_AGAIN_S
        bus.on(PodResourcesRead, self._report)
        for hint in (CheckpointChanged, PluginFoldersChanged):
            bus.on(hint, self._forget)

    def _report(self, read: PodResourcesRead) -> None:
        report = report_of(read, self._resources(), self._device_ids())
        self._bus.publish(HoldersReported(report, read.asked_at))

    def _forget(self, _: object) -> None:
        self._read_at = -READ_AGAIN_S

    async def ask(self, reading: Awaitable[Claims | None] | None = None) -> PodResourcesRead:
        """Ask both of kubelet's sources; ``reading`` is a read of the checkpoint under way.

        The checkpoint is read first: a device that it names and pod-resources does not list was
        freed since.
        """
        asked_at = asyncio.get_running_loop().time()
        claims = await (reading or self.claims())
        allocations = await list_pod_resources(
            self._roots, self._resources(), self._own_pod, limit_s=ANSWER_LIMIT_S
        )
        return PodResourcesRead(allocations, asked_at, claims)

    async def claims(self) -> Claims | None:
        """The devices that kubelet's checkpoint names as allocated; None if it cannot be used.

        It is read when kubelet has written it, and at intervals in case an event was missed.
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
    """Kubelet's answer about our devices; the answer itself covers the devices of all plugins.

    Ours are those of the ``configured`` resources, and those whose ids are ``known``.
    """

    def is_ours(resource: str, device_id: str) -> bool:
        return resource in configured or device_id in known

    claims = read.claims
    if claims is not None:
        claims = frozenset(c for c in claims if is_ours(c.resource, c.device_id))
    if read.allocations is None:
        return KubeletReport(claims=claims)
    pods: Mapping[str, PodOwner] = {
        device_id: PodOwner(a.resource, a.pod, a.namespace, a.container)
        for device_id, a in read.allocations.by_device.items()
        if is_ours(a.resource, device_id)
    }
    return KubeletReport(pods, read.allocations.is_complete, claims)

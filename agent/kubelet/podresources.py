"""Which pods hold which devices, by kubelet's pod-resources API.

This is the only way to learn that a device was freed: the device-plugin API has no call for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from types import MappingProxyType

import attrs
from grpclib.client import Channel, UnaryUnaryMethod

from agent import blocking, logs
from agent.attrs_classes import frozen
from agent.bus import Bus
from agent.errors import KubeletUnavailableError
from agent.events.kubelet import PodResourcesUnavailable
from agent.kubelet.checkpoint import Claims
from agent.kubelet.events import KubeletSocketAppeared
from agent.kubelet.pod_list import AgentPod, ContainerAllocation, read_pod_list
from agent.model.events import DevicesAllocated
from agent.roots import Roots
from agent.rpc import v1
from agent.tasks import retry_delay_s
from agent.transport.grpc import unary_call

MAX_REPLY_BYTES = 16 * 2**20
"""The limit of kubelet's own clients."""
ANSWER_LIMIT_S = 5.0
"""For one call, with decoding its reply."""
SETTLE_S = 1.0
"""From an Allocate to the call: kubelet makes several for one pod, and records them afterwards."""
PAUSE_S = 5.0
"""Between two calls after allocations, and before a device counts as freed."""
SLOW_S = 30.0
"""Between two calls while a pod holds a device, to learn when it is freed."""


@frozen
class PodAllocations:
    """Which containers hold our devices, sorted."""

    allocations: tuple[ContainerAllocation, ...] = ()
    is_complete: bool = True
    """False = kubelet may not know all its pods yet: a device that is missing may be held."""

    @property
    def by_device(self) -> Mapping[str, ContainerAllocation]:
        """The allocation of each device, by id."""
        return MappingProxyType({i: a for a in self.allocations for i in a.device_ids})


@frozen
class PodResourcesRead:
    """Kubelet was asked which pods hold devices; the answer is not necessarily a change."""

    allocations: PodAllocations | None
    """None = pod-resources did not answer."""
    asked_at: float
    """Loop time (s) of the call: devices allocated later may be missing."""
    claims: Claims | None = None
    """What the checkpoint names as allocated; it was read before pod-resources was called."""


async def list_pod_resources(
    roots: Roots,
    resources: Collection[str],
    own_pod: AgentPod,
    *,
    limit_s: float = ANSWER_LIMIT_S,
) -> PodAllocations | None:
    """Call kubelet once; None, with one log line, if it does not answer within ``limit_s``.

    The result has the devices of ``resources``, and those that are PCI functions or sub-functions
    by their id. The reply is decoded in a thread, within the limit.
    """
    socket = roots.pod_resources_socket
    list_method = "/v1.PodResourcesLister/List"

    async def call(channel: Channel) -> bytes:
        method = UnaryUnaryMethod(channel, list_method, v1.ListPodResourcesRequest, bytes)
        return await method(v1.ListPodResourcesRequest())

    try:
        async with asyncio.timeout(limit_s):
            reply = await unary_call(
                socket,
                call,
                failure=KubeletUnavailableError,
                deadline_s=limit_s,
                max_reply_bytes=MAX_REPLY_BYTES,
            )
            pods = await blocking.compute(
                "holders", lambda: read_pod_list(reply, resources, own_pod.shows_completeness)
            )
    except (KubeletUnavailableError, TimeoutError) as error:
        text = str(error) or f"{socket}: not read within {limit_s:g} s"
        logs.emit_once(PodResourcesUnavailable(error=text), str(socket))
        return None
    logs.forget(PodResourcesUnavailable, str(socket))
    return PodAllocations(pods.allocations, pods.is_complete)


class PodResourcesPoller:
    """Calls kubelet after allocations, and slowly while a pod holds a device; idle otherwise.

    ``read`` calls kubelet once. ``held`` gives the ids of the devices known to be held. Subscribes
    on construction: allocations before ``run`` count as well.
    """

    def __init__(
        self,
        bus: Bus,
        read: Callable[[], Awaitable[PodResourcesRead]],
        held: Callable[[], AbstractSet[str]],
    ) -> None:
        self._bus = bus
        self._read = read
        self._held = held
        self._expecting = False
        """Whether kubelet may record allocations that were missing from its newest answer."""
        self._failures = 0
        """How many calls failed since the last one that was answered."""
        self._is_fresh = True
        """Whether kubelet may have just started, and not know all its pods yet."""
        self._doubted = False
        """Whether the newest answer lacked devices that count as freed only after another one."""
        self._asked = asyncio.Event()
        self._last_s = -PAUSE_S
        self._leave = ExitStack()
        self._leave.callback(bus.on(DevicesAllocated, lambda _: self._asked.set()))
        self._leave.callback(bus.on(KubeletSocketAppeared, self._kubelet_appeared))

    def _kubelet_appeared(self, _: KubeletSocketAppeared) -> None:
        self._is_fresh = True
        self._doubted = False
        self._failures = 0
        self._asked.set()

    async def run(self, asking: Awaitable[PodResourcesRead] | None = None) -> None:
        """Publish PodResourcesRead for each answer; ``asking`` is a call under way."""
        with self._leave:
            if asking is not None:
                self.hear(await asking)
            while True:
                if await self._is_allocation_due():
                    # Kubelet may not have recorded all allocations yet: call again later.
                    self._expecting = True
                    await self._ask()
                elif await self._ask():
                    self._expecting = False

    async def _is_allocation_due(self) -> bool:
        """Wait until the next call is due; returns whether an allocation is the reason."""
        try:
            async with asyncio.timeout(self._pause_s()):
                await self._asked.wait()
        except TimeoutError:
            return False
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(max(SETTLE_S, self._last_s + PAUSE_S - now_s))
        self._asked.clear()
        return True

    def _pause_s(self) -> float | None:
        """How long to wait for an allocation before the next call; None = without limit."""
        if self._doubted:
            return PAUSE_S
        if self._failures:
            return retry_delay_s(self._failures - 1)
        return SLOW_S if self._expecting or self._is_fresh or self._held() else None

    async def _ask(self) -> bool:
        self._last_s = asyncio.get_running_loop().time()
        return self.hear(await self._read())

    def hear(self, read: PodResourcesRead) -> bool:
        """Publish an answer; returns whether kubelet's next answer will not be another.

        A missing device counts as freed at once if kubelet has run for a while and its checkpoint
        does not name the device; otherwise when the next answer lacks it as well.
        """
        allocations = read.allocations
        if allocations is None:
            self._failures += 1
            self._bus.publish(read)
            return False
        self._failures = 0
        if not allocations.is_complete:
            self._bus.publish(read)
            return False
        lost = self._held() - allocations.by_device.keys()
        claimed = {c.device_id for c in read.claims or ()}
        is_doubtful = bool(lost if self._is_fresh else lost & claimed)
        self._doubted, self._is_fresh = is_doubtful and not self._doubted, False
        if self._doubted:
            allocations = attrs.evolve(allocations, is_complete=False)
        self._bus.publish(attrs.evolve(read, allocations=allocations))
        return not self._doubted

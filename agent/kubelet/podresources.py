"""Who holds which device, as kubelet says it: pod-resources, and its own checkpoint file.

The only way to learn that a device was freed: the device-plugin API has no call for it.
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
from agent.kubelet.checkpoint import Claims
from agent.kubelet.events import KubeletSocketAppeared
from agent.kubelet.pod_list import ContainerAllocation, read_pod_list
from agent.kubelet.sources import Sources
from agent.model.events import DevicesAllocated
from agent.roots import Roots
from agent.rpc import v1
from agent.tasks import retry_delay_s
from agent.transport.grpc import unary_call

MAX_REPLY_BYTES = 16 * 2**20
"""What kubelet's own clients accept."""
ANSWER_LIMIT_S = 5.0
"""For one question, with the decoding of its answer."""
SETTLE_S = 1.0
"""From an Allocate to the question: kubelet answers several for one pod, and records them after."""
PAUSE_S = 5.0
"""Between two questions that allocations gave rise to, and before a loss is believed."""
SLOW_S = 30.0
"""Between two questions while a device is held, which tell of devices freed."""


@frozen
class PodAllocations:
    """What pod-resources says of the resources asked for, sorted."""

    holdings: tuple[ContainerAllocation, ...] = ()
    is_complete: bool = True
    """False = kubelet may not have heard of all its pods yet: what is not here may be held."""

    @property
    def by_device(self) -> Mapping[str, ContainerAllocation]:
        """Who holds a device."""
        return MappingProxyType({i: h for h in self.holdings for i in h.device_ids})

    def of(self, resource: str) -> frozenset[str]:
        """Ids of the devices held as ``resource``."""
        return frozenset(i for h in self.holdings if h.resource == resource for i in h.device_ids)


@frozen
class PodResourcesRead:
    """Kubelet said who holds what; not necessarily anything new."""

    holdings: PodAllocations | None
    """None = pod-resources gave no answer."""
    asked_at: float
    """Loop time (s) of the question: devices given out later may be missing."""
    claims: Claims | None = None
    """What the checkpoint says is given; it was read before pod-resources was asked."""


async def list_pod_resources(
    roots: Roots,
    resources: Collection[str],
    sources: Sources,
    *,
    limit_s: float = ANSWER_LIMIT_S,
) -> PodAllocations | None:
    """Ask kubelet once; None, with one log line, if it gives no answer within ``limit_s``.

    Holdings are those of ``resources``, and those of devices that are PCI functions or
    sub-functions by their id. The reply is decoded outside the loop, within the limit.
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
                "holders", lambda: read_pod_list(reply, resources, sources.vouches)
            )
    except (KubeletUnavailableError, TimeoutError) as error:
        text = str(error) or f"{socket}: not read within {limit_s:g} s"
        logs.emit_once("kubelet.pod_resources_unavailable", str(socket), error=text)
        return None
    logs.forget("kubelet.pod_resources_unavailable", str(socket))
    return PodAllocations(pods.holdings, pods.is_vouched)


class PodResourcesPoller:
    """Asks again after allocations, and slowly while anything is held; idle otherwise.

    ``read`` asks kubelet once. ``held`` gives the ids of the devices that are held as far as is
    known. It hears the bus from its making on: what is allocated before ``run`` is asked about too.
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
        """Whether kubelet may have answers to record that it had not when it was asked last."""
        self._failures = 0
        """How often pod-resources gave no answer since it last did."""
        self._is_fresh = True
        """Whether kubelet may have started just now, and not know all its pods yet."""
        self._doubted = False
        """Whether an answer lacked devices, and kubelet is asked once more before that counts."""
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
        """Publish PodResourcesRead for each answer; ``asking`` is a question under way."""
        with self._leave:
            if asking is not None:
                self.hear(await asking)
            while True:
                if await self._is_allocation_due():
                    # Kubelet may not have recorded all of it yet: ask once more, later.
                    self._expecting = True
                    await self._ask()
                elif await self._ask():
                    self._expecting = False

    async def _is_allocation_due(self) -> bool:
        """Wait for the next question; tells whether an allocation is the reason."""
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
        """How long to wait for a reason to ask; None = for ever."""
        if self._doubted:
            return PAUSE_S
        if self._failures:
            return retry_delay_s(self._failures - 1)
        return SLOW_S if self._expecting or self._is_fresh or self._held() else None

    async def _ask(self) -> bool:
        self._last_s = asyncio.get_running_loop().time()
        return self.hear(await self._read())

    def hear(self, read: PodResourcesRead) -> bool:
        """Take an answer in and publish it; returns whether it is kubelet's last word for now.

        A loss is believed at once from a kubelet that has been there for a while, and whose
        checkpoint does not contradict it; else when the next answer says the same.
        """
        holdings = read.holdings
        if holdings is None:
            self._failures += 1
            self._bus.publish(read)
            return False
        self._failures = 0
        if not holdings.is_complete:
            self._bus.publish(read)
            return False
        lost = self._held() - holdings.by_device.keys()
        claimed = {c.device_id for c in read.claims or ()}
        is_doubtful = bool(lost if self._is_fresh else lost & claimed)
        self._doubted, self._is_fresh = is_doubtful and not self._doubted, False
        if self._doubted:
            holdings = attrs.evolve(holdings, is_complete=False)
        self._bus.publish(attrs.evolve(read, holdings=holdings))
        return not self._doubted

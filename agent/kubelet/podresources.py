"""Who holds which device, as kubelet's pod-resources service tells it.

The only way to learn that a device was freed: the device-plugin API has no call for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType

from grpclib.client import Channel, UnaryUnaryMethod

from agent import blocking, logs
from agent.bus import Bus
from agent.errors import KubeletUnavailableError
from agent.kubelet.hints import KubeletSocketAppeared
from agent.kubelet.wire import ask
from agent.model.events import DevicesAllocated
from agent.records import frozen
from agent.roots import Roots
from agent.rpc import v1
from agent.tasks import retry_delay_s

MAX_REPLY_BYTES = 16 * 2**20
"""What kubelet's own clients accept."""
ANSWER_LIMIT_S = 5.0
SETTLE_S = 1.0
"""From an Allocate to the question: kubelet answers several for one pod, and records them after."""
PAUSE_S = 5.0
"""Between two questions that allocations gave rise to."""
SLOW_S = 30.0
"""Between two questions while a device is held, which tell of devices freed."""


@frozen
class Holding:
    """What one container holds of one resource."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@frozen
class Holdings:
    """All of kubelet's word about the resources asked for, sorted."""

    holdings: tuple[Holding, ...] = ()

    @property
    def by_device(self) -> Mapping[str, Holding]:
        """Who holds a device."""
        return MappingProxyType({i: h for h in self.holdings for i in h.device_ids})

    def of(self, resource: str) -> frozenset[str]:
        """Ids of the devices held as ``resource``."""
        return frozenset(i for h in self.holdings if h.resource == resource for i in h.device_ids)


@frozen
class HoldingsRead:
    """Kubelet told who holds what; not necessarily anything new."""

    holdings: Holdings
    asked_at: float
    """Loop time (s) of the question: devices given out later may be missing."""


async def read_holdings(
    roots: Roots, is_ours: Callable[[str], bool], *, limit_s: float = ANSWER_LIMIT_S
) -> Holdings | None:
    """Ask kubelet once; None, with one log line, if it gives no answer within ``limit_s``.

    ``is_ours`` picks the resources that matter. The reply is decoded outside the loop.
    """
    socket = roots.pod_resources_socket
    list_method = "/v1.PodResourcesLister/List"

    async def call(channel: Channel) -> bytes:
        method = UnaryUnaryMethod(channel, list_method, v1.ListPodResourcesRequest, bytes)
        return await method(v1.ListPodResourcesRequest())

    try:
        reply = await ask(socket, call, deadline_s=limit_s, max_reply_bytes=MAX_REPLY_BYTES)
        holdings = await blocking.compute("holders", lambda: _decode(reply, is_ours))
    except KubeletUnavailableError as error:
        logs.emit_once("kubelet.holdings_unknown", str(socket), error=str(error))
        return None
    logs.forget("kubelet.holdings_unknown", str(socket))
    return holdings


class HoldingsFollower:
    """Asks again after allocations, and slowly while anything is held; idle otherwise.

    ``read`` asks kubelet once, as ``read_holdings`` does. ``first`` is what was read at start,
    None if kubelet gave no answer then: it is asked again until it does. It hears the bus from its
    making on: what is allocated before ``run`` is asked about too.
    """

    def __init__(
        self, bus: Bus, read: Callable[[], Awaitable[Holdings | None]], first: Holdings | None
    ) -> None:
        self._bus = bus
        self._read = read
        self._holdings = first or Holdings()
        self._expecting = False
        """Whether kubelet may have answers to record that it had not when it last told."""
        self._failures = int(first is None)
        """How often kubelet gave no answer since it last did."""
        self._is_fresh = False
        """Whether kubelet came anew, and may not know its pods yet."""
        self._doubted = False
        """Whether such a kubelet forgot devices, and is asked once more before that counts."""
        self._asked = asyncio.Event()
        self._last_s = -PAUSE_S
        self._leave = ExitStack()
        self._leave.callback(bus.on(DevicesAllocated, lambda _: self._asked.set()))
        self._leave.callback(bus.on(KubeletSocketAppeared, self._kubelet_appeared))

    def _kubelet_appeared(self, _: KubeletSocketAppeared) -> None:
        self._is_fresh = True
        self._failures = 0
        self._asked.set()

    async def run(self) -> None:
        """Publish HoldingsRead for each answer, until cancelled."""
        with self._leave:
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
        return SLOW_S if self._expecting or self._holdings.holdings else None

    async def _ask(self) -> bool:
        asked_at = self._last_s = asyncio.get_running_loop().time()
        holdings = await self._read()
        if holdings is None:
            self._failures += 1
            return False
        self._failures = 0
        lost = self._holdings.by_device.keys() - holdings.by_device.keys()
        self._doubted, self._is_fresh = self._is_fresh and bool(lost), False
        if self._doubted:
            return False
        self._holdings = holdings
        self._bus.publish(HoldingsRead(holdings, asked_at))
        return True


def _decode(reply: bytes, is_ours: Callable[[str], bool]) -> Holdings:
    try:
        response = v1.ListPodResourcesResponse.parse(reply)
    except Exception as error:
        raise KubeletUnavailableError(f"pod-resources not understood: {error}") from error
    found: dict[tuple[str, str, str, str], set[str]] = {}
    for pod in response.pod_resources:
        for container in pod.containers:
            # One entry for each NUMA node, not one for each resource.
            for devices in container.devices:
                if devices.device_ids and is_ours(devices.resource_name):
                    key = (pod.namespace, pod.name, container.name, devices.resource_name)
                    found.setdefault(key, set()).update(devices.device_ids)
    return Holdings(tuple(Holding(*key, tuple(sorted(found[key]))) for key in sorted(found)))

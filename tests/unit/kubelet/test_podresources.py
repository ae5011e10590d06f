from __future__ import annotations

import asyncio
import logging
import socket
import threading

import pytest

from agent.bus import Bus
from agent.kubelet import podresources
from agent.kubelet.checkpoint import Claim
from agent.kubelet.events import KubeletSocketAppeared
from agent.kubelet.pod_list import AgentPod, ContainerAllocation
from agent.kubelet.podresources import (
    PodAllocations,
    PodResourcesPoller,
    PodResourcesRead,
    list_pod_resources,
)
from agent.model.events import DevicesAllocated
from agent.roots import Roots
from tests.support.podresources import PodResources

VF = "intel.com/vf"


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


HELD = PodAllocations((ContainerAllocation("test", "web", "app", VF, ("a", "b")),))
PARTIAL = PodAllocations(is_complete=False)
NOTHING: frozenset[Claim] = frozenset()
CLAIMED = frozenset({Claim(VF, "a", "uid-1"), Claim(VF, "b", "uid-1")})
ALLOCATED = DevicesAllocated(VF, ("a",))


OURS = (VF, "intel.com/rdma")
ANY_POD = AgentPod()


async def test_devices_of_pods_are_read_and_other_resources_are_left_out(roots: Roots) -> None:
    with PodResources(roots.kubelet) as service:
        service.holds("web", "app", VF, "b", "c")
        service.holds("web", "app", VF, "a")
        service.holds("web", "app", "other.io/gpu", "g")
        service.holds("db", "main", "intel.com/rdma", "r")
        service.holds("idle", "main", VF)
        allocations = await list_pod_resources(roots, OURS, ANY_POD)
    assert allocations == PodAllocations(
        (
            ContainerAllocation("test", "db", "main", "intel.com/rdma", ("r",)),
            ContainerAllocation("test", "web", "app", VF, ("a", "b", "c")),
        )
    )
    assert allocations.by_device["r"].pod == "db"


async def test_a_reply_of_fifteen_mebibytes_is_read(roots: Roots) -> None:
    ids = tuple(f"0000:{i:016x}" for i in range(6300))
    with PodResources(roots.kubelet) as service:
        for pod in range(110):
            service.holds(f"pod{pod}", "main", "other.io/gpu", *ids)
        service.holds("web", "app", VF, "a")
        size = service.reply.ByteSize()
        assert 15 * 2**20 < size < 16 * 2**20
        allocations = await list_pod_resources(roots, OURS, ANY_POD, limit_s=20)
    assert allocations == PodAllocations((ContainerAllocation("test", "web", "app", VF, ("a",)),))


async def test_a_longer_reply_is_refused(roots: Roots, caplog: pytest.LogCaptureFixture) -> None:
    with PodResources(roots.kubelet) as service:
        service.holds("web", "x" * 17 * 2**20, VF, "a")
        assert await list_pod_resources(roots, OURS, ANY_POD, limit_s=20) is None
    assert "over the limit" in caplog.records[0].fields["error"]  # type: ignore[attr-defined]


async def test_a_kubelet_without_the_service_is_logged_once(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        assert await list_pod_resources(roots, OURS, ANY_POD) is None
    assert [r.message for r in caplog.records] == ["kubelet.pod_resources_unavailable"]


async def test_a_kubelet_that_does_not_answer_does_not_block_the_loop(roots: Roots) -> None:
    service = PodResources(roots.kubelet)
    service.hang = threading.Event()
    with service:
        reading = asyncio.create_task(list_pod_resources(roots, OURS, ANY_POD, limit_s=0.2))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        service.hang.set()
    assert reading.result() is None
    assert turns > 100


async def test_a_peer_that_closes_the_connection_at_once_is_an_unavailable_kubelet(
    roots: Roots,
) -> None:
    roots.pod_resources_socket.parent.mkdir()
    server = await asyncio.start_unix_server(
        lambda _, writer: writer.close(), roots.pod_resources_socket
    )
    async with server:
        assert await list_pod_resources(roots, OURS, ANY_POD) is None


async def test_a_socket_without_a_listener_is_an_unavailable_kubelet(roots: Roots) -> None:
    roots.pod_resources_socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(roots.pod_resources_socket))
        assert await list_pod_resources(roots, OURS, ANY_POD) is None


class Rhythm:
    """Runs a follower in virtual time and notes when it asks."""

    def __init__(
        self,
        first: PodAllocations | None,
        *answers: PodAllocations | None,
        claims: frozenset[Claim] = NOTHING,
    ) -> None:
        self.bus = Bus()
        self.asked_at: list[float] = []
        self.told: list[PodResourcesRead] = []
        self.held: frozenset[str] = frozenset()
        self._first = first
        self._answers = list(answers)
        self._claims = claims
        self.bus.on(PodResourcesRead, self._note)
        self._follower = PodResourcesPoller(self.bus, self._read, lambda: self.held)

    def _note(self, read: PodResourcesRead) -> None:
        """Believe as the ledger does: what a complete answer lacks is free."""
        self.told.append(read)
        listed = read.allocations.by_device.keys() if read.allocations else set()
        is_complete = read.allocations is not None and read.allocations.is_complete
        self.held = frozenset(listed if is_complete else listed | self.held)

    async def _read(self) -> PodResourcesRead:
        now = asyncio.get_running_loop().time()
        self.asked_at.append(now)
        answer = self._answers.pop(0) if self._answers else PodAllocations()
        return PodResourcesRead(answer, now, self._claims)

    def believed(self) -> list[tuple[float, PodAllocations]]:
        """The complete answers, with their times."""
        read = ((r.asked_at, r.allocations) for r in self.told)
        return [(at, h) for at, h in read if h is not None and h.is_complete]

    async def run(
        self,
        duration_s: float,
        *events: tuple[float, object],
        asking: asyncio.Future[PodResourcesRead] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for at_s, hint in events:
            loop.call_at(at_s, self.bus.publish, hint)
        self._follower.hear(PodResourcesRead(self._first, 0, self._claims))
        self.told.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(duration_s):
                await self._follower.run(asking)


@pytest.mark.looptime
async def test_pod_resources_is_not_read_while_no_device_is_held() -> None:
    rhythm = Rhythm(PodAllocations())
    await rhythm.run(3600)
    assert rhythm.asked_at == []


@pytest.mark.looptime
async def test_while_a_device_is_held_kubelet_is_asked_every_half_minute() -> None:
    rhythm = Rhythm(HELD, HELD, HELD, PodAllocations())
    await rhythm.run(3600)
    assert rhythm.asked_at == [30, 60, 90]
    assert rhythm.believed() == [(30, HELD), (60, HELD), (90, PodAllocations())]


@pytest.mark.looptime
async def test_after_an_allocation_pod_resources_is_read_and_once_more_later() -> None:
    rhythm = Rhythm(PodAllocations())
    await rhythm.run(3600, (10, ALLOCATED), (10.5, ALLOCATED))
    assert rhythm.asked_at == [11, 41]


@pytest.mark.looptime
async def test_for_many_allocations_pod_resources_is_read_every_five_seconds() -> None:
    rhythm = Rhythm(PodAllocations(), HELD, HELD, HELD, HELD, HELD)
    await rhythm.run(20, *((10 + i / 10, ALLOCATED) for i in range(60)))
    assert rhythm.asked_at == [11, 16]


@pytest.mark.looptime
async def test_a_kubelet_that_does_not_answer_at_the_start_is_asked_again_until_it_does() -> None:
    rhythm = Rhythm(None, *[None] * 7, PodAllocations())
    await rhythm.run(3600)
    quick = [0.03, 0.06, 0.09, 0.12, 0.15]
    assert rhythm.asked_at == pytest.approx([*quick, 1.15, 3.15, 8.15])
    assert [allocations for _, allocations in rhythm.believed()] == [PodAllocations()]


@pytest.mark.looptime
async def test_a_request_without_an_answer_is_repeated_soon() -> None:
    rhythm = Rhythm(HELD, None, None, HELD)
    await rhythm.run(50)
    assert rhythm.asked_at == pytest.approx([30, 30.03, 30.06])


@pytest.mark.looptime
async def test_devices_allocated_before_the_poller_runs_are_requested() -> None:
    rhythm = Rhythm(PodAllocations())
    rhythm.bus.publish(ALLOCATED)
    await rhythm.run(20)
    assert rhythm.asked_at == [1]


@pytest.mark.looptime
async def test_a_new_kubelet_is_asked_soon_after_its_start() -> None:
    rhythm = Rhythm(PodAllocations())
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.asked_at == [11]


@pytest.mark.looptime
@pytest.mark.parametrize("second", [HELD, PodAllocations()])
async def test_a_new_kubelet_that_omits_devices_is_asked_again(
    second: PodAllocations,
) -> None:
    """Until it has heard of its pods it may know of none."""
    rhythm = Rhythm(HELD, PodAllocations(), second)
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.asked_at == [11, 16]
    assert rhythm.believed() == [(16, second)]


@pytest.mark.looptime
async def test_an_answer_of_a_new_kubelet_with_all_devices_counts_at_once() -> None:
    rhythm = Rhythm(HELD, HELD)
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.believed() == [(11, HELD)]
    assert rhythm.asked_at == [11]


@pytest.mark.looptime
async def test_devices_in_an_unconfirmed_answer_are_published_at_once() -> None:
    rhythm = Rhythm(HELD, PodAllocations())
    await rhythm.run(12, (10, KubeletSocketAppeared()))
    assert rhythm.told == [PodResourcesRead(PARTIAL, 11, NOTHING)]


@pytest.mark.looptime
async def test_an_answer_before_kubelet_knows_its_pods_frees_nothing() -> None:
    rhythm = Rhythm(HELD, *[PARTIAL] * 10, HELD)
    await rhythm.run(340, (10, KubeletSocketAppeared()))
    assert rhythm.held == {"a", "b"}
    assert rhythm.asked_at == [11, *range(41, 340, 30)]


@pytest.mark.looptime
async def test_a_loss_that_the_checkpoint_contradicts_counts_from_the_second_answer_on() -> None:
    rhythm = Rhythm(HELD, PodAllocations(), PodAllocations(), claims=CLAIMED)
    await rhythm.run(60)
    assert rhythm.asked_at == [30, 35]
    assert rhythm.believed() == [(35, PodAllocations())]


@pytest.mark.looptime
async def test_the_answers_of_a_kubelet_that_restarts_again_need_confirmation_again() -> None:
    rhythm = Rhythm(HELD, PodAllocations(), PodAllocations(), PodAllocations())
    await rhythm.run(40, (10, KubeletSocketAppeared()), (12, KubeletSocketAppeared()))
    assert rhythm.believed() == [(21, PodAllocations())]


@pytest.mark.looptime
async def test_a_request_in_progress_at_the_start_gives_the_first_answer() -> None:
    rhythm = Rhythm(None)
    under_way: asyncio.Future[PodResourcesRead] = asyncio.Future()
    under_way.set_result(PodResourcesRead(HELD, 0.0))
    await rhythm.run(10, asking=under_way)
    assert rhythm.believed() == [(0, HELD)]
    assert rhythm.asked_at == []


async def test_decoding_is_part_of_the_time_limit(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decoding = threading.Event()
    monkeypatch.setattr(podresources, "read_pod_list", lambda *_: decoding.wait(20))
    with PodResources(roots.kubelet):
        assert await list_pod_resources(roots, OURS, ANY_POD, limit_s=0.5) is None
    decoding.set()
    assert "not read within 0.5 s" in caplog.records[0].fields["error"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sources", "is_complete"),
    [
        (AgentPod(name="agent-x1", namespace="test"), True),
        (AgentPod(name="agent-x1"), True),
        (AgentPod(name="agent-x1", namespace="other"), False),
        (AgentPod(name="agent-x2", namespace="test"), False),
        (AgentPod(), True),
    ],
)
async def test_an_answer_is_complete_if_it_has_the_agents_own_pod(
    roots: Roots, sources: AgentPod, *, is_complete: bool
) -> None:
    with PodResources(roots.kubelet) as service:
        service.holds("web", "app", VF, "a")
        service.holds("agent-x1", "agent", "other.io/none")
        answer = await list_pod_resources(roots, OURS, sources)
    assert answer is not None
    assert answer.is_complete is is_complete


@pytest.mark.parametrize(("pod", "is_complete"), [("proxy-node-1", False), ("proxy-x7", True)])
@pytest.mark.parametrize("own", [None, "agent-node-1"], ids=["unknown", "static"])
async def test_static_pods_alone_do_not_make_an_answer_complete(
    roots: Roots, pod: str, own: str | None, *, is_complete: bool
) -> None:
    """They come from files, so that kubelet has them before it has reached the API server."""
    with PodResources(roots.kubelet) as service:
        service.holds("agent-node-1", "agent", "other.io/none")
        service.holds(pod, "main", "other.io/none")
        answer = await list_pod_resources(roots, OURS, AgentPod(name=own, node="Node-1"))
    assert answer is not None
    assert answer.is_complete is is_complete


async def test_an_answer_without_pods_is_not_complete(roots: Roots) -> None:
    with PodResources(roots.kubelet):
        answer = await list_pod_resources(roots, OURS, ANY_POD)
    assert answer == PARTIAL

from __future__ import annotations

import asyncio
import logging
import socket
import threading

import pytest

from agent.bus import Bus
from agent.kubelet.hints import KubeletSocketAppeared
from agent.kubelet.podresources import (
    Holding,
    Holdings,
    HoldingsFollower,
    HoldingsRead,
    read_holdings,
)
from agent.model.events import DevicesAllocated
from agent.roots import Roots
from tests.support.podresources import PodResources

VF = "intel.com/vf"


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


HELD = Holdings((Holding("test", "web", "app", VF, ("a", "b")),))
ALLOCATED = DevicesAllocated(VF, ("a",))


def is_ours(resource: str) -> bool:
    return resource.startswith("intel.com/")


async def test_what_pods_hold_is_read_and_other_resources_are_left_out(roots: Roots) -> None:
    with PodResources(roots.kubelet) as service:
        service.holds("web", "app", VF, "b", "c")
        service.holds("web", "app", VF, "a")
        service.holds("web", "app", "other.io/gpu", "g")
        service.holds("db", "main", "intel.com/rdma", "r")
        service.holds("idle", "main", VF)
        holdings = await read_holdings(roots, is_ours)
    assert holdings == Holdings(
        (
            Holding("test", "db", "main", "intel.com/rdma", ("r",)),
            Holding("test", "web", "app", VF, ("a", "b", "c")),
        )
    )
    assert holdings.of(VF) == {"a", "b", "c"}
    assert holdings.by_device["r"].pod == "db"


async def test_a_reply_of_fifteen_mebibytes_is_read(roots: Roots) -> None:
    ids = tuple(f"0000:{i:016x}" for i in range(6300))
    with PodResources(roots.kubelet) as service:
        for pod in range(110):
            service.holds(f"pod{pod}", "main", "other.io/gpu", *ids)
        service.holds("web", "app", VF, "a")
        size = service.reply.ByteSize()
        assert 15 * 2**20 < size < 16 * 2**20
        holdings = await read_holdings(roots, is_ours, limit_s=20)
    assert holdings == Holdings((Holding("test", "web", "app", VF, ("a",)),))


async def test_a_longer_reply_is_refused(roots: Roots, caplog: pytest.LogCaptureFixture) -> None:
    with PodResources(roots.kubelet) as service:
        service.holds("web", "x" * 17 * 2**20, VF, "a")
        assert await read_holdings(roots, is_ours, limit_s=20) is None
    assert "over the limit" in caplog.records[0].fields["error"]  # type: ignore[attr-defined]


async def test_a_kubelet_without_the_service_is_said_once(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        assert await read_holdings(roots, is_ours) is None
    assert [r.message for r in caplog.records] == ["kubelet.holdings_unknown"]


async def test_a_kubelet_that_does_not_answer_leaves_the_loop_alone(roots: Roots) -> None:
    service = PodResources(roots.kubelet)
    service.hang = threading.Event()
    with service:
        reading = asyncio.create_task(read_holdings(roots, is_ours, limit_s=0.2))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        service.hang.set()
    assert reading.result() is None
    assert turns > 100


async def test_a_peer_that_hangs_up_at_once_is_an_unavailable_kubelet(roots: Roots) -> None:
    roots.pod_resources_socket.parent.mkdir()
    server = await asyncio.start_unix_server(
        lambda _, writer: writer.close(), roots.pod_resources_socket
    )
    async with server:
        assert await read_holdings(roots, is_ours) is None


async def test_a_socket_on_which_nobody_listens_is_an_unavailable_kubelet(roots: Roots) -> None:
    roots.pod_resources_socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(roots.pod_resources_socket))
        assert await read_holdings(roots, is_ours) is None


class Rhythm:
    """Runs a follower in virtual time and notes when it asks."""

    def __init__(self, first: Holdings | None, *answers: Holdings | None) -> None:
        self.bus = Bus()
        self.asked_at: list[float] = []
        self.told: list[HoldingsRead] = []
        self._answers = list(answers)
        self.bus.on(HoldingsRead, self.told.append)
        self._follower = HoldingsFollower(self.bus, self._read, first)

    async def _read(self) -> Holdings | None:
        self.asked_at.append(asyncio.get_running_loop().time())
        return self._answers.pop(0) if self._answers else Holdings()

    async def run(self, duration_s: float, *hints: tuple[float, object]) -> None:
        loop = asyncio.get_running_loop()
        for at_s, hint in hints:
            loop.call_at(at_s, self.bus.publish, hint)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(duration_s):
                await self._follower.run()


@pytest.mark.looptime
async def test_nothing_is_asked_while_nothing_is_held() -> None:
    rhythm = Rhythm(Holdings())
    await rhythm.run(3600)
    assert rhythm.asked_at == []


@pytest.mark.looptime
async def test_while_something_is_held_kubelet_is_asked_each_half_minute() -> None:
    rhythm = Rhythm(HELD, HELD, HELD, Holdings())
    await rhythm.run(3600)
    assert rhythm.asked_at == [30, 60, 90]
    assert rhythm.told == [
        HoldingsRead(HELD, 30),
        HoldingsRead(HELD, 60),
        HoldingsRead(Holdings(), 90),
    ]


@pytest.mark.looptime
async def test_an_allocation_is_followed_by_a_question_and_by_one_more_later() -> None:
    rhythm = Rhythm(Holdings())
    await rhythm.run(3600, (10, ALLOCATED), (10.5, ALLOCATED))
    assert rhythm.asked_at == [11, 41]


@pytest.mark.looptime
async def test_many_allocations_are_asked_about_in_turns_of_five_seconds() -> None:
    rhythm = Rhythm(Holdings(), HELD, HELD, HELD, HELD, HELD)
    await rhythm.run(20, *((10 + i / 10, ALLOCATED) for i in range(60)))
    assert rhythm.asked_at == [11, 16]


@pytest.mark.looptime
async def test_a_kubelet_silent_at_start_is_asked_again_until_it_answers() -> None:
    rhythm = Rhythm(None, *[None] * 7, Holdings())
    await rhythm.run(3600)
    quick = [0.03, 0.06, 0.09, 0.12, 0.15]
    assert rhythm.asked_at == pytest.approx([*quick, 1.15, 3.15, 8.15])
    assert len(rhythm.told) == 1


@pytest.mark.looptime
async def test_a_question_without_an_answer_is_asked_again_soon() -> None:
    rhythm = Rhythm(HELD, None, None, HELD)
    await rhythm.run(50)
    assert rhythm.asked_at == pytest.approx([30, 30.03, 30.06])


@pytest.mark.looptime
async def test_what_is_allocated_before_it_runs_is_asked_about() -> None:
    rhythm = Rhythm(Holdings())
    rhythm.bus.publish(ALLOCATED)
    await rhythm.run(20)
    assert rhythm.asked_at == [1]


@pytest.mark.looptime
async def test_a_new_kubelet_is_asked_soon() -> None:
    rhythm = Rhythm(Holdings())
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.asked_at == [11]


@pytest.mark.looptime
@pytest.mark.parametrize("second", [HELD, Holdings()])
async def test_a_new_kubelet_that_forgets_devices_is_asked_once_more(second: Holdings) -> None:
    """Until it has heard of its pods it may know of none."""
    rhythm = Rhythm(HELD, Holdings(), second)
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.asked_at == [11, 16]
    assert rhythm.told == [HoldingsRead(second, 16)]


@pytest.mark.looptime
async def test_a_new_kubelet_that_knows_all_devices_is_believed_at_once() -> None:
    rhythm = Rhythm(HELD, HELD)
    await rhythm.run(20, (10, KubeletSocketAppeared()))
    assert rhythm.told == [HoldingsRead(HELD, 11)]

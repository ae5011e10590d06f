from __future__ import annotations

import asyncio
import shutil
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import attrs
import pytest

from agent.allocator import FRESH_WITHIN_S
from agent.events.plugin import ListPushed, Registered, RegistrationFailed, StreamLost
from agent.kubelet.events import KubeletSocketAppeared, PluginFoldersChanged
from agent.model.plugin_events import ServerEnded
from agent.plugin import folders, resource
from agent.plugin.generation import Limits
from agent.roots import Roots
from agent.tasks import QUICK_TRIES
from tests.support.fleet import FixedAnswers, Node, offer, plugin_sockets, running_fleet
from tests.support.hearing import hearing
from tests.support.kubelet import Device, Kubelet, Registration

VF = "intel.com/vf"


async def registered_again(node: Node, kubelet: Kubelet, *ids: str, times: int = 2) -> None:
    await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) >= times, "registration")
    await node.kubelet_has(kubelet, VF, *ids)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_pool_registers_lists_and_allocates(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a", "b", unhealthy=("b",)),))
            await node.kubelet_has(kubelet, VF, "a")
            reply = await asyncio.to_thread(kubelet.allocate, VF, "b", "a")
            name = node.of(Registered)[0].socket
        assert kubelet.registrations == [Registration(VF, name, "legacy", True)]
        assert kubelet.lists == [(VF, (Device("a", True), Device("b", False)))]
    assert dict(reply.envs) == {"IDS": "b,a"}
    assert [d.container_path for d in reply.devices] == ["/dev/b", "/dev/a"]
    assert [d.name for d in reply.cdi_devices] == ["vendor/class=b", "vendor/class=a"]


async def test_a_changed_list_is_one_push_and_an_equal_one_none(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.kubelet_has(kubelet, VF, "a", "b")
            node.fleet.apply((offer(VF, "a", "b"),))
            node.fleet.apply((offer(VF, "a", "b", unhealthy=("b",)),))
            await node.kubelet_has(kubelet, VF, "a")
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.kubelet_has(kubelet, VF, "a", "b")
            assert [e.sequence for e in node.of(ListPushed)] == [1, 2, 3]
            assert node.state(VF).lists_pushed == 3
        assert len(kubelet.lists) == 3
        assert kubelet.count(VF) == 1


async def test_a_kubelet_that_starts_later_gets_exactly_one_registration(roots: Roots) -> None:
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        await node.until(lambda: len(node.of(RegistrationFailed)) == 3)
        with Kubelet(roots.kubelet) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
            await node.until(lambda: node.of(ListPushed))
            for hint in (KubeletSocketAppeared(), PluginFoldersChanged()):
                node.bus.publish(hint)
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.kubelet_has(kubelet, VF, "a", "b")
            assert kubelet.count(VF) == 1
            assert node.state(VF).last_error is None


async def test_a_resource_that_waits_for_kubelet_has_no_socket_and_is_not_registered(
    roots: Roots,
) -> None:
    async with running_fleet(roots) as node:
        with Kubelet(roots.kubelet) as kubelet:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            await node.until(lambda: node.state(VF).socket)
            assert node.state(VF).registered_by == "legacy"
        await node.until(lambda: len(node.of(RegistrationFailed)) == 1)
        state = node.state(VF)
        assert (state.socket, state.registered_by) == (None, None)
        assert state.last_error == node.of(RegistrationFailed)[0].error


async def test_a_hundred_kubelet_restarts_are_a_hundred_registrations(roots: Roots) -> None:
    ids = tuple(f"0000:3b:02.{i}" for i in range(8))
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, *ids),))
            await node.kubelet_has(kubelet, VF, *ids)
            settled = 0
            for restart in range(1, 101):
                await asyncio.to_thread(kubelet.restart)
                await node.kubelet_has(kubelet, VF, *ids)
                if restart == 10:
                    settled = open_files()
            assert kubelet.count(VF) == 101
            full = tuple(Device(i, True) for i in ids)
            assert [devices for _, devices in kubelet.lists] == [full] * 101
            # The C library closes some of its own late; a leak would be one for each restart.
            assert open_files() < settled + 20
            assert len(plugin_sockets(roots.device_plugins)) == 1


async def test_an_unlinked_socket_is_created_again_and_registered(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            (roots.device_plugins / node.of(Registered)[0].socket).unlink()
            await registered_again(node, kubelet, "a")
            assert plugin_sockets(roots.device_plugins) == [node.of(Registered)[1].socket]
            assert node.state(VF).generation == 2


async def test_a_socket_that_was_replaced_by_another_file_is_created_again_and_registered(
    roots: Roots,
) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            other = roots.device_plugins / "other"
            other.touch()
            other.rename(roots.device_plugins / node.of(Registered)[0].socket)
            await registered_again(node, kubelet, "a")
            assert node.state(VF).generation == 2


async def test_after_a_folder_is_emptied_and_kubelet_sock_is_new_the_agent_works(
    roots: Roots,
) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"), offer("intel.com/other", "x")))
            await node.kubelet_has(kubelet, VF, "a")
            await node.kubelet_has(kubelet, "intel.com/other", "x")
            for path in roots.device_plugins.iterdir():
                path.unlink()
            await asyncio.to_thread(kubelet.restart)
            await registered_again(node, kubelet, "a")
            await node.kubelet_has(kubelet, "intel.com/other", "x")


async def test_after_a_folder_is_removed_and_recreated_the_agent_works(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            shutil.rmtree(roots.kubelet)
            await node.until(lambda: node.of(RegistrationFailed))
            await asyncio.to_thread(kubelet.restart)
            await registered_again(node, kubelet, "a")


async def test_a_stream_lost_while_the_sockets_stay_is_registered_again(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            kubelet.drop_stream(VF)
            await registered_again(node, kubelet, "a")
            assert len(node.of(StreamLost)) == 1
            assert node.state(VF).stream_live


async def test_a_refusal_is_retried_until_kubelet_accepts(roots: Roots) -> None:
    kubelet = Kubelet(roots.kubelet)
    kubelet.refusals = 3
    with kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            failures = node.of(RegistrationFailed)
            assert len(failures) == 3
            assert "refused by the test" in failures[0].error


async def test_a_kubelet_that_hangs_in_register_is_abandoned_for_its_successor(
    roots: Roots,
) -> None:
    kubelet = Kubelet(roots.kubelet)
    kubelet.hang = threading.Event()
    with kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.asked_to_register)
            successor = Kubelet(roots.kubelet)
            with successor:
                await node.kubelet_has(successor, VF, "a")
            kubelet.hang.set()


async def test_unchanged_pools_see_no_interruption_when_others_change(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            keep = offer("intel.com/keep", "k")
            node.fleet.apply((keep, offer(VF, "a")))
            await node.kubelet_has(kubelet, "intel.com/keep", "k")
            stream = kubelet.clients["intel.com/keep"].stream
            before = node.state("intel.com/keep")
            for round_ in range(20):
                node.fleet.apply((keep, offer(f"intel.com/new{round_}", f"n{round_}")))
                await node.kubelet_has(kubelet, f"intel.com/new{round_}", f"n{round_}")
            assert node.state("intel.com/keep") == before
            assert kubelet.clients["intel.com/keep"].stream is stream
            assert stream.is_active()


async def test_a_removed_pool_sends_an_empty_list_then_ends_and_leaves_no_socket(
    roots: Roots,
) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            node.fleet.apply(())
            await asyncio.to_thread(kubelet.wait_for, lambda k: VF in k.stopped)
            assert kubelet.lists[-1] == (VF, ())
            assert node.fleet.state() == ()
        assert plugin_sockets(roots.device_plugins) == []


async def test_a_removed_pool_waits_no_longer_for_its_empty_list_than_kubelet_takes(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "EMPTY_LIST_LIMIT_S", 3600.0)
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            node.fleet.apply(())
            await asyncio.to_thread(kubelet.wait_for, lambda k: VF in k.stopped)
            await node.until(lambda: node.of(ServerEnded))


async def test_the_state_of_a_resource_has_the_time_of_its_last_change(roots: Roots) -> None:
    loop = asyncio.get_running_loop()
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            before_s = loop.time()
            await node.kubelet_has(kubelet, VF, "a")
            opened_s = node.state(VF).since_s
            kubelet.drop_stream(VF)
            await node.until(lambda: node.of(StreamLost))
            assert before_s < opened_s < node.state(VF).since_s


async def test_an_unexpected_exception_in_the_watch_of_the_sockets_ends_the_fleet(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_at(_: Path) -> None:
        raise ZeroDivisionError

    with Kubelet(roots.kubelet) as kubelet, pytest.RaisesGroup(ZeroDivisionError):
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            monkeypatch.setattr(folders, "look_at", look_at)
            (plugin_socket,) = plugin_sockets(roots.device_plugins)
            (roots.device_plugins / plugin_socket).unlink()
            await asyncio.Event().wait()


async def test_a_pool_that_another_process_serves_ends_without_an_empty_list(
    roots: Roots,
) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            node.fleet.apply((), {VF})
            await node.until(lambda: node.of(ServerEnded))
            await asyncio.to_thread(kubelet.wait_for, lambda k: VF in k.stopped)
        assert [devices for _, devices in kubelet.lists if not devices] == []
        assert node.of(ServerEnded) == [ServerEnded(VF)]


async def test_a_pool_that_returns_while_it_ends_is_served_again(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            node.fleet.apply(())
            node.fleet.apply((offer(VF, "a", "b"),))
            node.fleet.apply(())
            node.fleet.apply((offer(VF, "a", "b", "c"),))
            await node.kubelet_has(kubelet, VF, "a", "b", "c")
            assert kubelet.count(VF) == 2


async def test_closing_keeps_the_capacity_and_removes_the_plugin_sockets(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply(tuple(offer(f"intel.com/p{i}", f"d{i}") for i in range(8)))
            for i in range(8):
                await node.kubelet_has(kubelet, f"intel.com/p{i}", f"d{i}")
        await asyncio.to_thread(kubelet.wait_for, lambda k: len(k.stopped) == 8)
        assert all(devices for _, devices in kubelet.lists)
        assert plugin_sockets(roots.device_plugins) == []


async def test_an_answer_in_progress_is_sent_before_the_fleet_closes(roots: Roots) -> None:
    answers = FixedAnswers()
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, answers=answers) as node:
            node.fleet.apply((offer(VF, "slow"),))
            await node.kubelet_has(kubelet, VF, "slow")
            asked = asyncio.create_task(asyncio.to_thread(kubelet.allocate, VF, "slow"))
            await answers.asked_once.wait()
            asyncio.get_running_loop().call_later(0.05, answers.gate.set)
        assert dict((await asked).envs) == {"IDS": "slow"}


async def test_an_answer_in_progress_is_sent_even_if_the_stream_ends_meanwhile(
    roots: Roots,
) -> None:
    answers = FixedAnswers()
    with Kubelet(roots.kubelet) as kubelet:
        kubelet.late_s = 20.0  # it keeps the connection, and the call on it
        async with running_fleet(roots, answers=answers) as node:
            node.fleet.apply((offer(VF, "slow"),))
            await node.kubelet_has(kubelet, VF, "slow")
            asked = asyncio.create_task(asyncio.to_thread(kubelet.allocate, VF, "slow"))
            await answers.asked_once.wait()
            kubelet.drop_stream(VF)
            await node.until(lambda: node.of(StreamLost))
            asyncio.get_running_loop().call_later(FRESH_WITHIN_S + 0.1, answers.gate.set)
            assert dict((await asked).envs) == {"IDS": "slow"}
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)


async def drop_streams(node: Node, kubelet: Kubelet, count: int) -> None:
    """End the stream so often, each time once kubelet has it again."""
    await node.kubelet_has(kubelet, VF, "a")
    before = len(node.of(StreamLost))
    for number in range(before + 1, before + count + 1):
        kubelet.drop_stream(VF)
        await node.until(partial(_has_lost, node, number))
        await asyncio.to_thread(kubelet.wait_for, partial(_has_registered, count=number + 1))
        await node.kubelet_has(kubelet, VF, "a")


def _has_lost(node: Node, count: int) -> bool:
    return len(node.of(StreamLost)) == count


def _has_registered(kubelet: Kubelet, count: int) -> bool:
    return kubelet.count(VF) == count


async def test_streams_that_end_soon_are_registered_again_with_growing_delays_and_logged_once(
    roots: Roots,
) -> None:
    drops = QUICK_TRIES + 1
    with hearing() as heard, Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await drop_streams(node, kubelet, drops)
    names = [name for name, _ in heard.events]
    assert [names.count(n) for n in ("plugin.stream_lost", "plugin.unsteady")] == [1, 1]
    assert "plugin.invalidated" not in names  # the agent removes its sockets itself


async def test_a_stable_stream_is_answered_at_once_and_logged_each_time(
    roots: Roots,
) -> None:
    with hearing() as heard, Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, limits=Limits(steady_s=0.0)) as node:
            node.fleet.apply((offer(VF, "a"),))
            await drop_streams(node, kubelet, 3)
    assert [name for name, _ in heard.events].count("plugin.stream_lost") == 3


async def test_after_a_stable_stream_short_ones_are_counted_from_zero(roots: Roots) -> None:
    limits = SimpleNamespace(**attrs.asdict(Limits()))
    with hearing() as heard, Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, limits=cast("Limits", limits)) as node:
            node.fleet.apply((offer(VF, "a"),))
            await drop_streams(node, kubelet, QUICK_TRIES)
            limits.steady_s = 0.0
            await drop_streams(node, kubelet, 1)
            limits.steady_s = Limits().steady_s
            await drop_streams(node, kubelet, 1)
    assert "plugin.unsteady" not in [name for name, _ in heard.events]


async def test_an_unexpected_exception_in_an_answer_ends_the_fleet(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        with pytest.RaisesGroup(ZeroDivisionError):
            async with running_fleet(roots) as node:
                node.fleet.apply((offer(VF, "bug"),))
                await node.kubelet_has(kubelet, VF, "bug")
                asked = asyncio.create_task(asyncio.to_thread(kubelet.allocate, VF, "bug"))
                await asyncio.Event().wait()
        with pytest.raises(Exception, match="ZeroDivisionError"):
            await asked

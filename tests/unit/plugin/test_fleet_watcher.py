from __future__ import annotations

import asyncio
import shutil

import pytest

from agent.model.plugin_events import Registered, RegistrationFailed, StreamLost
from agent.roots import Roots
from tests.support.fleet import offer, running_fleet, until_served
from tests.support.kubelet import Device, Kubelet, Registration

VF = "intel.com/vf"


@pytest.fixture(autouse=True)
def _registry(roots: Roots) -> None:
    roots.plugins_registry.mkdir()


async def test_the_watcher_finds_the_socket_and_gets_one_full_list(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.kubelet_has(kubelet, VF, "a", "b")
            await node.until(lambda: node.of(Registered))
            name = node.of(Registered)[0].socket
            reply = await asyncio.to_thread(kubelet.allocate, VF, "a")
            state = node.state(VF)
        assert kubelet.registrations == [Registration(VF, name, "watcher", True)]
        assert kubelet.lists == [(VF, (Device("a", True), Device("b", True)))]
    assert dict(reply.envs) == {"IDS": "a"}
    assert (state.registered_by, state.registrations, state.generation) == ("watcher", 1, 1)
    assert not list(roots.plugins_registry.iterdir())


async def test_a_refusal_is_followed_by_a_socket_with_a_fresh_name(roots: Roots) -> None:
    kubelet = Kubelet(roots.kubelet, watcher=True)
    kubelet.refusals = 1
    with kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            await node.until(lambda: node.of(Registered))
            (failure,) = node.of(RegistrationFailed)
            assert failure.error == f"{VF}: kubelet refused: refused by the test"
            assert node.state(VF).generation == 2


async def test_a_lost_stream_brings_a_socket_with_a_fresh_name(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            kubelet.drop_stream(VF)
            await node.until(lambda: node.of(StreamLost))
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)
            await node.kubelet_has(kubelet, VF, "a")
            await node.until(lambda: len(node.of(Registered)) == 2)
            first, second = (e.socket for e in node.of(Registered))
            assert first != second
            assert [p.name for p in roots.plugins_registry.iterdir()] == [second]


async def test_a_restarted_kubelet_finds_the_pool_again(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            for _ in range(20):
                await asyncio.to_thread(kubelet.restart)
                await node.kubelet_has(kubelet, VF, "a")
            assert kubelet.count(VF) == 21


async def test_a_kubelet_that_comes_later_finds_the_waiting_socket(roots: Roots) -> None:
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        await until_served(roots.plugins_registry)
        with Kubelet(roots.kubelet, watcher=True) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
            assert node.state(VF).generation == 1
            assert kubelet.count(VF) == 1


async def test_an_unlinked_socket_is_made_anew(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            for path in roots.plugins_registry.iterdir():
                path.unlink()
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)
            await node.kubelet_has(kubelet, VF, "a")


async def test_a_removed_and_recreated_registry_is_survived(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots, mode="watcher") as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            shutil.rmtree(roots.plugins_registry)
            await node.until(lambda: node.of(RegistrationFailed))
            roots.plugins_registry.mkdir()
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)
            await node.kubelet_has(kubelet, VF, "a")


async def test_auto_goes_the_legacy_way_once_the_registry_is_gone(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            shutil.rmtree(roots.plugins_registry)
            await node.until(lambda: [e.way for e in node.of(Registered)] == ["watcher", "legacy"])
            await node.kubelet_has(kubelet, VF, "a")


async def test_auto_switches_to_a_registry_that_appears_while_it_waits(roots: Roots) -> None:
    roots.plugins_registry.rmdir()
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        await node.until(lambda: len(node.of(RegistrationFailed)) == 6)
        roots.plugins_registry.mkdir()
        with Kubelet(roots.kubelet, watcher=True) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
            assert {r.way for r in kubelet.registrations} == {"watcher"}

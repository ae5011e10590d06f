from __future__ import annotations

import asyncio
import shutil
import socket

import pytest
from grpclib.client import Channel

from agent.events.plugin import Registered, RegistrationFailed, StreamLost
from agent.plugin.generation import Limits
from agent.roots import Roots
from agent.rpc import pluginregistration
from tests.support.fleet import offer, plugin_sockets, running_fleet, until_served
from tests.support.hearing import hearing
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


async def test_a_refusal_is_followed_by_a_socket_with_a_new_name(roots: Roots) -> None:
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


async def test_a_lost_stream_causes_a_socket_with_a_new_name(roots: Roots) -> None:
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


async def test_a_kubelet_that_starts_later_finds_the_waiting_socket(roots: Roots) -> None:
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        await until_served(roots.plugins_registry)
        with Kubelet(roots.kubelet, watcher=True) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
            assert node.state(VF).generation == 1
            assert kubelet.count(VF) == 1


async def test_an_unlinked_socket_is_created_again(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            for path in roots.plugins_registry.iterdir():
                path.unlink()
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)
            await node.kubelet_has(kubelet, VF, "a")


async def test_after_a_registry_is_removed_and_recreated_the_agent_works(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots, mode="watcher") as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            shutil.rmtree(roots.plugins_registry)
            await node.until(lambda: node.of(RegistrationFailed))
            roots.plugins_registry.mkdir()
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF) == 2)
            await node.kubelet_has(kubelet, VF, "a")


async def test_auto_uses_the_legacy_method_once_the_registry_is_gone(roots: Roots) -> None:
    with Kubelet(roots.kubelet, watcher=True) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            shutil.rmtree(roots.plugins_registry)
            await node.until(
                lambda: [e.method for e in node.of(Registered)] == ["watcher", "legacy"]
            )
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


async def test_a_registry_that_kubelet_does_not_watch_leads_to_the_legacy_method_with_one_warning(
    roots: Roots,
) -> None:
    resources = [f"intel.com/p{i}" for i in range(4)]
    with hearing() as heard, Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, limits=Limits(unwatched_s=0.05)) as node:
            node.fleet.apply(tuple(offer(r, f"d-{r}") for r in resources))
            for resource in resources:
                await node.kubelet_has(kubelet, resource, f"d-{resource}")
                assert node.state(resource).registered_by == "legacy"
                assert str(roots.plugins_registry) in node.state(resource).note
            assert plugin_sockets(roots.plugins_registry) == []
            # The next kubelet is told at once, and does not find a second registration either.
            await asyncio.to_thread(kubelet.restart)
            for resource in resources:
                await node.kubelet_has(kubelet, resource, f"d-{resource}")
    assert [r.way for r in kubelet.registrations] == ["legacy"] * 8
    assert [name for name, _ in heard.events].count("plugin.unwatched") == 1


async def test_a_kubelet_that_uses_the_registry_late_gets_no_second_registration(
    roots: Roots,
) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, limits=Limits(unwatched_s=0.05)) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            await asyncio.to_thread(kubelet.stop)
            with Kubelet(roots.kubelet, watcher=True) as next_kubelet:
                await node.kubelet_has(next_kubelet, VF, "a")
                assert [r.way for r in next_kubelet.registrations] == ["legacy"]
                assert plugin_sockets(roots.plugins_registry) == []
            await asyncio.to_thread(kubelet.start)


@pytest.mark.parametrize("left", ["a socket", "nothing"])
async def test_a_kubelet_that_is_down_for_long_does_not_change_the_method(
    roots: Roots, left: str
) -> None:
    with Kubelet(roots.kubelet, watcher=True):
        pass
    if left == "a socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(roots.kubelet_socket))
    limits = Limits(unwatched_s=0.1, undialled_s=0.3)
    async with running_fleet(roots, limits=limits) as node:
        node.fleet.apply((offer(VF, "a"),))
        await node.until(lambda: len(node.of(RegistrationFailed)) == 2)
        assert {e.error for e in node.of(RegistrationFailed)} == {
            f"{VF}: kubelet's plugin watcher did not connect within 0.3 s"
        }
        with Kubelet(roots.kubelet, watcher=True) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")


async def test_the_watcher_is_tried_again_if_kubelet_refuses_the_legacy_method(
    roots: Roots,
) -> None:
    kubelet = Kubelet(roots.kubelet)
    kubelet.refusals = 1
    with kubelet:
        async with running_fleet(roots, limits=Limits(unwatched_s=0.05)) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            errors = [e.error.removeprefix(f"{VF}: ") for e in node.of(RegistrationFailed)]
            undialled = "kubelet's plugin watcher did not connect within 0.05 s"
            assert errors[0] == errors[2] == undialled
            assert "refused by the test" in errors[1]


async def test_the_watcher_method_is_kept_if_it_is_configured(roots: Roots) -> None:
    limits = Limits(unwatched_s=0.02, undialled_s=0.1)
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, mode="watcher", limits=limits) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.until(lambda: len(node.of(RegistrationFailed)) == 3)
        assert kubelet.registrations == []


async def test_a_kubelet_that_connected_gets_time_for_its_answer(roots: Roots) -> None:
    async with running_fleet(roots, limits=Limits(verdict_s=0.05)) as node:
        node.fleet.apply((offer(VF, "a"),))
        await until_served(roots.plugins_registry)
        (name,) = plugin_sockets(roots.plugins_registry)
        async with Channel(path=str(roots.plugins_registry / name)) as channel:
            await pluginregistration.RegistrationStub(channel).get_info(
                pluginregistration.InfoRequest()
            )
            await node.until(lambda: node.of(RegistrationFailed))
        assert node.of(RegistrationFailed)[0].error == (
            f"{VF}: kubelet called GetInfo, but not NotifyRegistrationStatus within 0.05 s"
        )

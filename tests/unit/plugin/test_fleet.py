"""What concerns the fleet whichever way it registers."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import attrs
import pytest

from agent.errors import SocketPathTooLongError
from agent.events.plugin import Registered, RegistrationFailed
from agent.plugin.generation import Limits
from agent.roots import Roots
from agent.transport.unix_socket import socket_token
from tests.support.fleet import offer, plugin_sockets, running_fleet
from tests.support.hearing import hearing
from tests.support.kubelet import Kubelet

VF = "intel.com/vf"
WAYS = pytest.mark.parametrize("watcher", [False, True], ids=["legacy", "watcher"])


def registry(roots: Roots, *, watcher: bool) -> Path:
    """The folder that is registered through."""
    if watcher:
        roots.plugins_registry.mkdir(parents=True, exist_ok=True)
        return roots.plugins_registry
    return roots.device_plugins


@WAYS
async def test_a_long_kubelet_root_gets_short_socket_names(roots: Roots, *, watcher: bool) -> None:
    shortest = f"/..{socket_token(10**6, '0' * 8)}.sock"
    free = 107 - len(shortest) - 12 - len(f"{roots.host}//plugins_registry")
    roots = attrs.evolve(roots, kubelet_dir="/" + "k" * free)
    folder = registry(roots, watcher=watcher)
    folder.mkdir(parents=True, exist_ok=True)
    resource = f"intel.com/{'n' * 63}"
    with Kubelet(roots.kubelet, watcher=watcher) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(resource, "a"),))
            await node.kubelet_has(kubelet, resource, "a")
            (name,) = plugin_sockets(folder)
            assert len(name) < len(resource)


async def test_a_kubelet_root_that_is_too_long_is_refused_before_a_socket_is_bound(
    roots: Roots,
) -> None:
    roots = attrs.evolve(roots, kubelet_dir="/" + "k" * 80)
    roots.device_plugins.mkdir(parents=True)
    with pytest.RaisesGroup(SocketPathTooLongError):
        async with running_fleet(roots):
            pass
    assert not list(roots.device_plugins.iterdir())


@WAYS
async def test_unused_sockets_of_an_earlier_run_are_removed_at_the_start(
    roots: Roots, *, watcher: bool
) -> None:
    folder = registry(roots, watcher=watcher)
    for name in ("intel.com_gone.g3-0123abcd.sock", "intel.com_vf.sock"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / name))
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        with Kubelet(roots.kubelet, watcher=watcher) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
            assert plugin_sockets(folder) == [node.of(Registered)[-1].socket]


async def test_a_go_plugin_that_serves_the_resource_is_named_and_left_alone(roots: Roots) -> None:
    roots.plugins_registry.mkdir()
    path = roots.plugins_registry / "intel.com_vf.sock"
    with socket.socket(socket.AF_UNIX) as other, hearing() as heard:
        other.bind(str(path))
        other.listen()
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            fields = await heard.until("plugin.conflict")
        assert path.exists()
    assert fields == {"resource": VF, "socket": str(path)}


@WAYS
async def test_a_registration_without_a_stream_is_tried_again(
    roots: Roots, *, watcher: bool
) -> None:
    registry(roots, watcher=watcher)
    kubelet = Kubelet(roots.kubelet, watcher=watcher)
    kubelet.opens_streams = False
    with kubelet:
        async with running_fleet(roots, limits=Limits(stream_s=0.05)) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.until(lambda: node.of(RegistrationFailed))
            kubelet.opens_streams = True
            await node.kubelet_has(kubelet, VF, "a")
            error = node.of(RegistrationFailed)[0].error
            assert error == f"{VF}: registered, but kubelet did not ask for the list within 0.05 s"


async def test_a_socket_to_which_no_watcher_connects_gets_a_new_name(roots: Roots) -> None:
    roots.plugins_registry.mkdir()
    async with running_fleet(roots, limits=Limits(undialled_s=0.05)) as node:
        node.fleet.apply((offer(VF, "a"),))
        await node.until(lambda: len(node.of(RegistrationFailed)) == 3)
        failure = node.of(RegistrationFailed)[2]
        assert failure.error == f"{VF}: kubelet's plugin watcher did not connect within 0.05 s"
        assert len(plugin_sockets(roots.plugins_registry)) <= 1


async def test_repeated_failures_are_one_line_until_a_success(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running_fleet(roots) as node:
        node.fleet.apply((offer(VF, "a"),))
        await node.until(lambda: len(node.of(RegistrationFailed)) == 5)
        assert [r.message for r in caplog.records] == ["plugin.registration_failed"]
        with Kubelet(roots.kubelet) as kubelet:
            await node.kubelet_has(kubelet, VF, "a")
        messages = [r.message for r in caplog.records]
        assert messages[:2] == ["plugin.registration_failed", "plugin.registered"]


async def test_many_pools_register_and_close_side_by_side(roots: Roots) -> None:
    offers = tuple(offer(f"intel.com/p{i:02}", f"d{i}") for i in range(32))
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply(offers)
            for i, each in enumerate(offers):
                await node.kubelet_has(kubelet, each.resource, f"d{i}")
            states = node.fleet.state()
            assert [s.resource for s in states] == [o.resource for o in offers]
            assert all(s.stream_live and s.registrations == 1 for s in states)
        assert plugin_sockets(roots.device_plugins) == []

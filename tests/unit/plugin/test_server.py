"""A fleet's servers under unusual clients of the C library."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from agent.events.plugin import ListPushed, StreamLost
from agent.inotify import DirectoryWatch, EntryChanged
from agent.model.answers import ListedDevice
from agent.plugin.device_list import DeviceList
from agent.plugin.server import CLOSE_LIMIT_S, PoolServer
from agent.plugin.service import DevicePluginService
from agent.roots import Roots
from agent.wakeup import Wakeup
from tests.support.fleet import FixedAnswers, Node, Silent, offer, plugin_sockets, running_fleet
from tests.support.kubelet import PATIENCE_S, Kubelet
from tests.support.protocol import message, stub

VF = "intel.com/vf"
PLUGIN = "v1beta1.DevicePlugin"
# A connection of its own, whose window stays at HTTP/2's 64 KiB.
_LOCAL = (("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0))


class Client:
    """A connection to a pool's socket, beside kubelet's."""

    def __init__(self, path: Path) -> None:
        self.channel = grpc.insecure_channel(f"unix:{path}", options=_LOCAL)

    def open_stream(self) -> Iterator[Any]:
        stream: Iterator[Any] = stub(self.channel, PLUGIN, "ListAndWatch")(
            message("v1beta1.Empty")()
        )
        return stream

    async def call(self, method: str, request: Any) -> Any:  # noqa: ANN401 - made at run time
        return await asyncio.to_thread(stub(self.channel, PLUGIN, method), request, timeout=10)

    def close(self) -> None:
        self.channel.close()


async def take(stream: Iterator[Any]) -> list[str] | None:
    """The ids of the stream's next list; None at its end."""
    response = await asyncio.to_thread(next, stream, None)
    return None if response is None else [d.id for d in response.devices]


def socket_of(node: Node, resource: str = VF) -> Path:
    path = node.state(resource).socket
    assert path is not None
    return Path(path)


async def test_a_second_stream_gets_every_update_and_the_first_ends(roots: Roots) -> None:
    kubelet = Kubelet(roots.kubelet)
    kubelet.opens_streams = False
    with kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await asyncio.to_thread(kubelet.wait_for, lambda k: k.count(VF))
            clients = [Client(socket_of(node)) for _ in range(2)]
            first = clients[0].open_stream()
            assert await take(first) == ["a"]
            second = clients[1].open_stream()
            assert await take(second) == ["a"]
            assert await take(first) is None
            node.fleet.apply((offer(VF, "a", "b"),))
            assert await take(second) == ["a", "b"]
            assert not node.of(StreamLost)
            assert kubelet.count(VF) == 1
            for client in clients:
                client.close()


async def test_a_reader_that_stalls_does_not_affect_others_and_gets_the_newest_list(
    roots: Roots,
) -> None:
    many = tuple(f"0000:{i:04x}:00.0" for i in range(20_000))
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, *many), offer("intel.com/other", "x")))
            await node.kubelet_has(kubelet, "intel.com/other", "x")
            await node.kubelet_has(kubelet, VF, *many)
            stalled = Client(socket_of(node))
            unread = stalled.open_stream()  # its window holds a tenth of the list
            await asyncio.to_thread(kubelet.wait_for, lambda k: VF in k.stopped)
            for count in range(1, 11):
                ids = tuple(f"x{i}" for i in range(count))
                node.fleet.apply((offer(VF, *many[count:]), offer("intel.com/other", *ids)))
                await node.kubelet_has(kubelet, "intel.com/other", *ids)
            ended = threading.Event()
            assert unread.add_callback(ended.set), "the stream lives"  # type: ignore[attr-defined]
            again = Client(socket_of(node))
            assert await take(again.open_stream()) == list(many[10:])
            assert await asyncio.to_thread(ended.wait, PATIENCE_S)
        stalled.close()
        again.close()
        assert plugin_sockets(roots.device_plugins) == []


async def test_a_peer_that_does_not_read_its_socket_is_disconnected(roots: Roots) -> None:
    wakeup = Wakeup()
    device_list = DeviceList(wakeup, Silent())
    device_list.publish(tuple(ListedDevice(f"0000:{i:04x}:00.0") for i in range(40_000)))
    service = DevicePluginService(VF, device_list, FixedAnswers(), lambda _: None)
    path = roots.device_plugins / "x.sock"
    with socket.socket(socket.AF_UNIX) as deaf:
        server = PoolServer(path, (service,), wakeup)
        await server.start()
        deaf.connect(str(path))
        deaf.sendall(list_and_watch_request())
        await wakeup.until(lambda: device_list.live)
        await server.close(
            device_list.end,
            is_answered=lambda: True,
            is_ended=lambda: not device_list.live,
            is_urgent=lambda: False,
        )
        assert not server._server.peers
        assert not path.exists()


def list_and_watch_request() -> bytes:
    """What an HTTP/2 client with boundless windows sends to open a stream."""
    connection = H2Connection(H2Configuration(client_side=True, header_encoding="ascii"))
    connection.initiate_connection()
    connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
    connection.increment_flow_control_window(2**31 - 1 - 65535)
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{PLUGIN}/ListAndWatch",
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    connection.send_headers(1, list(headers.items()))
    connection.send_data(1, bytes(5), end_stream=True)
    return connection.data_to_send()


async def test_a_request_over_four_mebibytes_is_refused(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(kubelet.allocate, VF, "x" * 2**22)
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await asyncio.to_thread(kubelet.allocate, VF, "x" * 2**19)


async def test_a_request_that_is_not_a_message_is_refused(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            raw = kubelet.clients[VF].channel.unary_unary(f"/{PLUGIN}/Allocate")
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(raw, b"\x0a\x05\x0a\x03\xff\xfe\xfd", timeout=10)
            assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_errors_reach_a_foreign_client_with_status_and_text(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(kubelet.allocate, VF, "missing1")
            assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
            assert refusal.value.details() == "intel.com/vf has no device missing1"


async def test_a_preference_and_a_start_are_answered_for_a_foreign_client(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.kubelet_has(kubelet, VF, "a", "b")
            client = Client(socket_of(node))
            request = message("v1beta1.PreferredAllocationRequest")()
            request.container_requests.add(
                available_device_ids=["b", "a"], must_include_device_ids=[], allocation_size=1
            )
            response = await client.call("GetPreferredAllocation", request)
            assert [list(c.device_ids) for c in response.container_responses] == [["a"]]
            request = message("v1beta1.PreStartContainerRequest")(devices_ids=["a"])
            await client.call("PreStartContainer", request)
            client.close()


async def test_peers_that_stay_are_disconnected_when_the_fleet_closes(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            client = Client(socket_of(node))
            broken = threading.Event()
            client.channel.subscribe(
                lambda state: broken.set() if state is not grpc.ChannelConnectivity.READY else None
            )
            await client.call("GetDevicePluginOptions", message("v1beta1.Empty")())
            broken.clear()
        assert await asyncio.to_thread(broken.wait, 10)
        client.close()


async def test_a_call_that_never_returns_does_not_delay_the_end_of_the_process(
    roots: Roots,
) -> None:
    answers = FixedAnswers()
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots, answers=answers) as node:
            node.fleet.apply((offer(VF, "slow"),))
            await node.kubelet_has(kubelet, VF, "slow")
            asked = asyncio.create_task(asyncio.to_thread(kubelet.allocate, VF, "slow"))
            await answers.asked_once.wait()
        with pytest.raises(grpc.RpcError):
            await asked


@pytest.mark.looptime
async def test_a_server_whose_peer_never_disconnects_closes_within_its_limit(
    tmp_path: Path,
) -> None:
    server = PoolServer(tmp_path / "vf.sock", (), Wakeup())
    await server.start()
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(server.path))
        began_s = loop.time()
        await server.close(
            lambda: None,
            is_answered=lambda: False,
            is_ended=lambda: False,
            is_urgent=lambda: True,
        )
        assert loop.time() - began_s == pytest.approx(CLOSE_LIMIT_S, abs=0.01)
    assert not server.path.exists()


async def test_clients_that_connect_and_disconnect_cause_no_log_line(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            for _ in range(5):
                client = Client(socket_of(node))
                await client.call("GetDevicePluginOptions", message("v1beta1.Empty")())
                client.close()
            with pytest.raises(grpc.RpcError):
                await asyncio.to_thread(kubelet.allocate, VF, "missing1")
            node.fleet.apply((offer(VF, "a", "b"),))
            await node.until(lambda: len(node.of(ListPushed)) == 2)
    assert caplog.records == []


async def test_a_socket_appears_under_its_name_only_once_it_listens(roots: Roots) -> None:
    with Kubelet(roots.kubelet) as kubelet, DirectoryWatch((roots.device_plugins,)) as watch:
        async with running_fleet(roots) as node:
            node.fleet.apply((offer(VF, "a"),))
            await node.kubelet_has(kubelet, VF, "a")
            name = socket_of(node).name
        (roots.device_plugins / "end").touch()
        seen: list[str] = []
        async for change in watch:
            assert isinstance(change, EntryChanged)
            seen.append(change.path.name)
            if seen[-1] == "end":
                break
    # Bound and made to listen under the hidden name, moved to the visible one, removed.
    assert list(dict.fromkeys(seen)) == [f".{name}", name, "end"]

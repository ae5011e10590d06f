"""Real servers of the agent under peers that keep to no rule; other pools must not notice."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import struct
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import grpc
import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from h2.connection import H2Connection
from h2.events import StreamEnded
from h2.exceptions import ProtocolError
from hpack import Encoder
from hypothesis import given

from agent.admin.client import ask_status
from agent.admin.server import SOCKET, serve_admin
from agent.admin.service import AdminService
from agent.event_history import EventHistory
from agent.roots import Roots
from agent.rpc import v1beta1
from agent.transport.grpc import MAX_MESSAGE_BYTES
from agent.transport.grpc_server import MAX_PEERS
from tests.fuzz.peers import ATTACKS, PREFACE, SETTINGS, Attack, bytes_of, client, dial, make
from tests.fuzz.profile import fuzz
from tests.support.devices import host
from tests.support.fleet import Node, offer, running_fleet
from tests.support.hearing import hearing
from tests.support.kubelet import PATIENCE_S, Kubelet
from tests.support.log_lines import forget_all
from tests.support.moment import moment
from tests.support.protocol import message, stub

VF, OTHER = "intel.com/vf", "intel.com/other"
MIB = 2**20
UNKNOWN = b"\x00\x00\x03\xee\x00\x00\x00\x00\x00abc"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"\x00" * 8


class Target:
    """Two pools, one of them under attack, and the admin socket."""

    def __init__(self, node: Node, kubelet: Kubelet, faults: list[dict[str, Any]]) -> None:
        self.faults = faults
        self.node = node
        self.kubelet = kubelet
        self.pushed = 0

    @property
    def sockets(self) -> tuple[Path, Path]:
        return Path(self.node.state(VF).socket or ""), self.node.roots.run / SOCKET

    async def is_unharmed(self) -> None:
        """Both pools and the admin socket answer, and a new list arrives."""
        self.pushed += 1
        ids = tuple(f"x{n}" for n in range(self.pushed % 3 + 1))
        self.node.fleet.apply((offer(VF, "a"), offer(OTHER, *ids)))
        await self.node.kubelet_has(self.kubelet, OTHER, *ids)
        answer = await asyncio.to_thread(self.kubelet.allocate, OTHER, "x0")
        assert dict(answer.envs) == {"IDS": "x0"}
        await self.options()
        assert (await ask_status(self.node.roots.run, devices=False)).version == "1.2.3"

    async def options(self) -> None:
        """The pool under attack answers others, once it has its socket if it is making one anew."""
        while True:
            await self.node.until(lambda: self.node.state(VF).socket)
            channel = grpc.insecure_channel(
                f"unix:{self.sockets[0]}", options=(("grpc.use_local_subchannel_pool", 1),)
            )
            call = stub(channel, "v1beta1.DevicePlugin", "GetDevicePluginOptions")
            try:
                await asyncio.to_thread(call, message("v1beta1.Empty")(), timeout=PATIENCE_S)
            except grpc.RpcError as error:
                lost = error.code() is grpc.StatusCode.UNAVAILABLE
            else:
                return
            finally:
                channel.close()
            assert lost


@asynccontextmanager
async def attacked() -> AsyncIterator[Target]:
    folder = Path(tempfile.mkdtemp(prefix="wire"))
    roots = Roots(folder)
    roots.device_plugins.mkdir(parents=True)
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    service = AdminService(lambda: moment(host()), EventHistory(), lambda _v, _d: "")
    with Kubelet(roots.kubelet) as kubelet:
        async with running_fleet(roots) as node:
            with hearing() as heard:
                serving = asyncio.create_task(serve_admin(roots.run, service))
                await heard.until("admin.listening")
            node.fleet.apply((offer(VF, "a"), offer(OTHER, "x0")))
            await node.kubelet_has(kubelet, VF, "a")
            await node.kubelet_has(kubelet, OTHER, "x0")
            target = Target(node, kubelet, faults)
            yield target
            await target.is_unharmed()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    assert not faults, faults
    rmtree(folder)


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Memory:
    """How much more of it is in use than at the beginning, and was at most."""

    def __enter__(self) -> Self:
        gc.collect()
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()

    @property
    def peak(self) -> int:
        """Bytes."""
        return tracemalloc.get_traced_memory()[1]

    def now(self) -> int:
        """Bytes."""
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


def test_no_bytes_of_a_peer_affect_other_pools() -> None:
    """One node for all attacks, each of which may be the one that breaks it."""
    stop = asyncio.Event()

    async def hold(ready: asyncio.Future[Target]) -> None:
        async with attacked() as target:
            ready.set_result(target)
            await stop.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        ready: asyncio.Future[Target] = loop.create_future()
        held = loop.create_task(hold(ready))
        target = runner.run(first_of(ready, held))

        @fuzz(80)
        @given(ATTACKS)
        def attack(attack: Attack) -> None:
            for path in target.sockets:
                runner.run(make(attack, path))
            faults = tuple(target.faults)
            target.faults.clear()
            assert not faults

        attack()
        stop.set()
        runner.run(until_done(held))


async def first_of(ready: asyncio.Future[Target], held: asyncio.Task[None]) -> Target:
    either: set[asyncio.Future[Any]] = {ready, held}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    return ready.result()


async def until_done(held: asyncio.Task[None]) -> None:
    await held


class Wire:
    """A client of its own making on one connection."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.h2: H2Connection = client()
        self.loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()  # the loop tells one writer only that there is room again

    async def send(self) -> None:
        async with self._sending:
            await self.loop.sock_sendall(self.peer, self.h2.data_to_send())

    async def read(self) -> None:
        """Take in what comes until the end."""
        while data := await self.loop.sock_recv(self.peer, 65536):
            self.h2.receive_data(data)
            await self.send()

    def ask(self, method: str) -> int:
        """Begin a request; its stream."""
        stream = self.h2.get_next_available_stream_id()
        names = ((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "x"))
        self.h2.send_headers(
            stream, (*names, ("te", "trailers"), ("content-type", "application/grpc"))
        )
        return stream


async def test_a_request_over_the_limit_is_refused_before_it_is_received() -> None:
    async with attacked() as target:
        request = v1beta1.AllocateRequest(
            [v1beta1.ContainerAllocateRequest(["x" * (MAX_MESSAGE_BYTES + 1)])]
        )
        async with Channel(path=str(target.sockets[0])) as channel:
            with pytest.raises(GRPCError) as caught:
                await v1beta1.DevicePluginStub(channel).allocate(request)
        assert caught.value.status is Status.RESOURCE_EXHAUSTED


async def test_messages_that_never_end_take_no_more_memory_than_one_of_the_longest() -> None:
    size = MAX_MESSAGE_BYTES - 100
    async with attacked() as target:
        wire = Wire(await dial(target.sockets[0]))
        await wire.send()
        reading = asyncio.create_task(wire.read())
        with Memory() as memory:
            for _ in range(8):
                await send_most_of(wire, wire.ask("/v1beta1.DevicePlugin/Allocate"), size)
            assert memory.peak < 3 * MAX_MESSAGE_BYTES
        reading.cancel()
        wire.peer.close()


async def send_most_of(wire: Wire, stream: int, size: int) -> None:
    """A message but for its last byte, as far as the server lets it come."""
    left, data = size - 1, struct.pack("!BI", 0, size)
    with suppress(ProtocolError):  # refused: the stream was reset
        while left > 0:
            room = min(wire.h2.max_outbound_frame_size, wire.h2.local_flow_control_window(stream))
            if room > len(data):
                data += b"x" * min(left, room - len(data))
                wire.h2.send_data(stream, data)
                left -= len(data)
                data = b""
                await wire.send()
            await asyncio.sleep(0)


async def test_a_few_mib_of_empty_fields_are_refused() -> None:
    async with attacked() as target:
        channel = grpc.insecure_channel(f"unix:{target.sockets[0]}")
        call = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        with pytest.raises(grpc.RpcError) as caught:
            await asyncio.to_thread(call, b"\x0a\x00" * MIB, timeout=60)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        channel.close()


async def test_a_thousand_connections_do_not_block_other_peers() -> None:
    async with attacked() as target:
        with Memory() as memory:
            peers = []
            for _ in range(1000):
                peer = await dial(target.sockets[0])
                with_preface = client().data_to_send()
                try:
                    await asyncio.get_running_loop().sock_sendall(peer, with_preface)
                except OSError:  # dropped already
                    peer.close()
                peers.append(peer)
            await target.is_unharmed()
            held = memory.now()
        assert held < 30 * MIB
        assert sum(map(is_open, peers)) <= 64
        for peer in peers:
            peer.close()


def is_open(peer: socket.socket) -> bool:
    """Whether the agent kept this connection; what it sent is taken in."""
    try:
        while peer.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


async def test_a_flood_of_pings_whose_answers_nobody_reads_is_not_kept() -> None:
    async with attacked() as target:
        peer = await dial(target.sockets[0])
        await asyncio.get_running_loop().sock_sendall(peer, client().data_to_send())
        sent = turns_without_room = 0
        while turns_without_room < 3:
            try:
                sent += peer.send(PING * 200)
                turns_without_room = 0
            except BlockingIOError:
                turns_without_room += 1
                await target.options()
            assert sent < 4 * MIB
        peer.close()


async def test_a_flood_of_resets_leaves_nothing_behind() -> None:
    async with attacked() as target:
        with Memory() as memory:
            await send_resets(target.sockets[0], 600)
            await target.is_unharmed()
            assert memory.now() < 3 * MIB


async def send_resets(path: Path, count: int) -> None:
    """Requests that are taken back at once, on one connection."""
    wire = Wire(await dial(path))
    reading = asyncio.create_task(wire.read())
    await wire.send()
    for _ in range(count):
        wire.h2.reset_stream(wire.ask("/v1beta1.DevicePlugin/GetDevicePluginOptions"))
        await wire.send()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    wire.peer.close()


async def test_streams_that_nobody_reads_share_one_list_in_memory() -> None:
    async with attacked() as target:
        many = tuple(f"0000:{i:04x}:00.0" for i in range(5_000))
        target.node.fleet.apply((offer(VF, *many), offer(OTHER, "x0")))
        await target.node.kubelet_has(target.kubelet, VF, *many)
        peers = []
        with Memory() as memory:
            for _ in range(20):
                wire = Wire(await dial(target.sockets[0]))
                stream = wire.ask("/v1beta1.DevicePlugin/ListAndWatch")
                wire.h2.send_data(stream, b"\x00" * 5, end_stream=True)
                await wire.send()
                peers.append(wire.peer)
            await target.is_unharmed()
            assert memory.now() < 8 * MIB
        for peer in peers:
            peer.close()


async def test_a_frame_of_an_unknown_type_is_ignored() -> None:
    async with attacked() as target:
        wire = Wire(await dial(target.sockets[0]))
        stream = wire.ask("/v1beta1.DevicePlugin/GetDevicePluginOptions")
        wire.h2.send_data(stream, b"\x00" * 5, end_stream=True)
        request = wire.h2.data_to_send()
        start = len(PREFACE)
        await wire.loop.sock_sendall(wire.peer, request[:start] + SETTINGS + UNKNOWN)
        await wire.loop.sock_sendall(wire.peer, request[start:])
        assert await answered(wire, stream)
        wire.peer.close()


async def answered(wire: Wire, stream: int) -> bool:
    """Whether the answer comes before the connection ends."""
    while data := await wire.loop.sock_recv(wire.peer, 65536):
        for event in wire.h2.receive_data(data):
            if isinstance(event, StreamEnded) and event.stream_id == stream:
                return True
    return False


async def test_a_peer_that_sends_invalid_bytes_is_disconnected_and_logged() -> None:
    headers = {":method": "POST", ":scheme": "http", ":path": "/x", ":authority": "x", "te": "\xff"}
    block = Encoder().encode([(k.encode(), v.encode("latin-1")) for k, v in headers.items()])
    head = struct.pack(">I", len(block))[1:] + b"\x01\x05" + struct.pack(">I", 1)
    forget_all()  # it may have been said before
    async with attacked() as target, asyncio.timeout(PATIENCE_S):
        wire = Wire(await dial(target.sockets[0]))
        with hearing() as heard:
            await wire.loop.sock_sendall(wire.peer, PREFACE + SETTINGS + head + block)
            await heard.until("peer.dropped")
        while await wire.loop.sock_recv(wire.peer, 65536):
            pass
        wire.peer.close()


async def test_a_compressed_message_is_refused_with_an_explanation() -> None:
    async with attacked() as target:
        channel = grpc.insecure_channel(
            f"unix:{target.sockets[0]}", compression=grpc.Compression.Gzip
        )
        call = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        with pytest.raises(grpc.RpcError) as caught:
            await asyncio.to_thread(call, b"\x0a\x00" * 1000, timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        channel.close()


def test_the_peers_send_what_they_should_send() -> None:
    """The generator makes whole requests too, or the servers' depths would not be reached."""
    plain = Attack("request", b"", "/x", ((b"te", b"trailers"),), (), 0, False, "close")
    assert bytes_of(plain).startswith(b"PRI * HTTP/2.0")
    assert MAX_PEERS < 1000

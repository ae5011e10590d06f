from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncGenerator

import pytest

from agent.http.address import Address
from agent.http.messages import Answer, Request, Stream, plain
from agent.http.places import PROBES, Limits
from agent.http.server import TURNED_AWAY_AT_MOST, HttpServer
from tests.support.hearing import hearing
from tests.support.http_client import Client, Site, listening
from tests.support.log_lines import LogLines

LONG = b"device " * 10_000


class Echo:
    """Answers by path; a stream says one word, then waits for ``more``."""

    def __init__(self) -> None:
        self.more = asyncio.Event()
        self.streams_ended = 0
        self.ended = asyncio.Event()

    async def serve(self, request: Request) -> Answer | Stream:
        match request.path:
            case "/long":
                return Answer(LONG)
            case "/of_size":
                return Answer(b"x" * int(request.query["bytes"]))
            case "/bug":
                raise ZeroDivisionError("of the test")
            case "/stream":
                return Stream(self._words(), "text/event-stream")
            case "/unchanged":
                return Answer(status=304, headers=(("etag", '"1"'),))
        return plain(json.dumps([request.path, dict(request.query), request.headers.get("x")]))

    async def _words(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            await self.more.wait()
            yield b"two"
        finally:
            self.streams_ended += 1
            self.ended.set()


@pytest.fixture
async def echo() -> Echo:
    return Echo()


async def test_path_query_and_headers_reach_what_is_served(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        reply = await site.get("/a%20b?x=1&y=%2F&x=2", "X: seen\n")
    assert json.loads(reply.body) == ["/a b", {"x": "2", "y": "/"}, "seen"]


async def test_one_connection_serves_request_after_request(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        bodies = [json.loads((await client.get(f"/{n}")).body)[0] for n in range(3)]
    assert bodies == ["/0", "/1", "/2"]


async def test_head_returns_the_headers_of_get(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("HEAD /long HTTP/1.1\nhost: x\n\n")
        reply = await client.reply(body=False)
        after = await client.get("/after")
    assert reply.headers["content-length"] == str(len(LONG))
    assert json.loads(after.body)[0] == "/after"


async def test_every_answer_forbids_what_browsers_could_do_with_it(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        headers = (await site.get("/")).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_methods_that_could_change_something_are_refused(method: str, echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send(f"{method} / HTTP/1.1\nhost: x\ncontent-length: 3\n\nabc")
        reply = await client.reply()
        assert await client.rest() == b""
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


async def test_a_get_with_a_body_is_answered_and_the_connection_closed(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("GET / HTTP/1.1\nhost: x\ncontent-length: 30\n\nabc")
        reply = await client.reply()
        assert await client.rest() == b""
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("NONSENSE\n\n", 400),
        ("GET / HTTP/1.1\n\n", 400),
        ("GET / HTTP/1.1\nhost: x\nbad header\n\n", 400),
        (f"GET /{'x' * 13_000} HTTP/1.1\nhost: x\n\n", 431),
        (f"GET / HTTP/1.1\nhost: x\nlong: {'x' * 13_000}\n\n", 431),
    ],
)
async def test_broken_and_oversized_requests_are_refused_and_cut_off(
    sent: str, status: int, echo: Echo
) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.get("/")
        await client.send(sent)
        refused = await client.reply()
        assert (refused.status, refused.headers["connection"]) == (status, "close")
        assert await client.rest() == b""


async def test_long_answers_are_compressed_for_clients_that_accept_it(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        packed = await site.get("/long", "accept-encoding: br, gzip\n")
        bare = await site.get("/long")
        short = await site.get("/short", "accept-encoding: gzip\n")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(LONG) / 20
    assert gzip.decompress(packed.body) == bare.body == LONG
    assert "content-encoding" not in short.headers


@pytest.mark.parametrize("header", ["accept-encoding: identity, br", "x: gzip"])
async def test_answers_are_not_compressed_for_other_clients(header: str, echo: Echo) -> None:
    async with listening(echo.serve) as site:
        assert (await site.get("/long", f"{header}\n")).body == LONG


async def test_answers_of_1024_bytes_and_more_are_compressed(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        replies = [
            await site.get(f"/of_size?bytes={size}", "accept-encoding: gzip\n")
            for size in (1023, 1024)
        ]
    assert ["content-encoding" in reply.headers for reply in replies] == [False, True]


async def test_an_unchanged_status_is_answered_without_a_body(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        reply = await client.get("/unchanged")
        assert (await client.get("/next")).status == 200
    assert (reply.status, reply.headers["etag"]) == (304, '"1"')
    assert "content-length" not in reply.headers


async def test_a_bug_affects_one_answer_and_is_logged(echo: Echo, log_lines: LogLines) -> None:
    async with listening(echo.serve) as site:
        assert (await site.get("/bug")).status == 500
        assert (await site.get("/fine")).status == 200
    assert log_lines.fields("http.failed") == [
        {"path": "/bug", "error": "ZeroDivisionError('of the test')"}
    ]


async def test_a_stream_is_sent_in_pieces(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
        assert (await client.head()).headers["content-type"] == "text/event-stream"
        assert await client.reader.readexactly(8) == b"3\r\none\r\n"
        echo.more.set()
        assert (await client.rest()).startswith(b"3\r\ntwo\r\n")


async def test_a_stream_ends_when_its_client_disconnects(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
        await client.reader.readuntil(b"one")
        client.writer.close()
        async with asyncio.timeout(20):
            await echo.ended.wait()


async def test_a_stream_whose_client_leaves_ends_without_an_error(echo: Echo) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
        await client.reader.readuntil(b"one")
        client.writer.close()
        async with asyncio.timeout(20):
            await echo.ended.wait()
    assert errors == []


async def test_more_streams_than_allowed_are_refused_until_one_ends(echo: Echo) -> None:
    async with listening(echo.serve, Limits(streams=1)) as site:
        first = await site.connect()
        await first.send("GET /stream HTTP/1.1\nhost: x\n\n")
        await first.reader.readuntil(b"one")
        refused = await site.get("/stream")
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert (await site.get("/other")).status == 200
        echo.more.set()
        await first.rest()
        again = await site.connect()
        await again.send("GET /stream HTTP/1.1\nhost: x\n\n")
        assert (await again.head()).status == 200


async def test_simultaneous_requests_for_streams_are_counted_before_the_streams_start(
    echo: Echo,
) -> None:
    async with listening(echo.serve, Limits(streams=4)) as site:
        clients = [await site.connect() for _ in range(40)]
        for client in clients:
            client.writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        heads = await asyncio.gather(*(client.head() for client in clients))
        assert Counter(head.status for head in heads) == {200: 4, 503: 36}


async def test_a_head_request_for_a_stream_frees_its_place(echo: Echo) -> None:
    async with listening(echo.serve, Limits(streams=1, requests=1)) as site:
        for _ in range(3):
            client = await site.connect()
            await client.send("HEAD /stream HTTP/1.1\nhost: x\n\n")
            assert (await client.head()).status == 200
            assert await client.rest() == b""


async def test_more_requests_than_allowed_get_the_answer_to_retry_later(echo: Echo) -> None:
    async with listening(echo.serve, Limits(requests=2)) as site:
        for _ in range(2):
            client = await site.connect()
            await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
            await client.reader.readuntil(b"one")
        third = await site.get("/other")
        assert (third.status, third.headers["connection"]) == (503, "close")
        assert third.headers["retry-after"] == "5"
        echo.more.set()
        async with asyncio.timeout(20):
            await echo.ended.wait()
        assert (await site.get("/other")).status == 200


@pytest.mark.parametrize("path", sorted(PROBES))
async def test_probes_are_answered_during_any_number_of_other_requests(
    echo: Echo, path: str
) -> None:
    gate = asyncio.Event()

    async def serve(request: Request) -> Answer | Stream:
        if request.path == "/slow":
            await gate.wait()
        return await echo.serve(request)

    async with listening(serve) as site:
        clients = [await site.connect() for _ in range(300)]
        for number, client in enumerate(clients):
            wanted = (b"/stream", b"/slow", b"/other")[number % 3]
            client.writer.write(b"GET " + wanted + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        probes = await asyncio.gather(*(site.get(path) for _ in range(8)))
        assert {probe.status for probe in probes} == {200}
        gate.set()


async def test_a_thousand_clients_at_once_do_not_block_a_probe(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        clients = [asyncio.create_task(site.connect()) for _ in range(1000)]
        assert (await site.get("/healthz")).status == 200
        for client in await asyncio.gather(*clients):
            client.writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await site.get("/healthz")).status == 200


async def test_more_probes_than_allowed_get_the_answer_to_retry_later(echo: Echo) -> None:
    gate = asyncio.Event()

    async def serve(request: Request) -> Answer | Stream:
        await gate.wait()
        return await echo.serve(request)

    async with listening(serve, Limits(probes=1)) as site:
        first = asyncio.create_task(site.get("/healthz"))
        await asyncio.sleep(0)
        second, third = [await site.connect() for _ in range(2)]
        for client in (second, third):
            await client.send("GET /healthz HTTP/1.1\nhost: x\n\n")
        replies = [asyncio.create_task(c.reply()) for c in (second, third)]
        done, _ = await asyncio.wait({first, *replies}, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        statuses = [r.status for r in await asyncio.gather(first, *replies)]
        assert {task.result().status for task in done} == {503}
        assert statuses.count(200) >= 1


async def test_a_client_is_turned_away_if_no_other_connection_can_be_closed_for_it(
    echo: Echo,
) -> None:
    async with listening(echo.serve, Limits(connections=2)) as site:
        for _ in range(2):
            client = await site.connect()
            await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
            await client.reader.readuntil(b"one")
        third = await site.connect()
        assert (await third.reply()).status == 503
        assert await third.rest() == b""


@pytest.mark.parametrize("round_", ["first", "second"])
async def test_so_many_clients_at_a_time_are_turned_away_and_others_get_no_answer(
    echo: Echo, round_: str
) -> None:
    limits = Limits(connections=0, linger_s=3600.0)
    async with listening(echo.serve, limits) as site:
        if round_ == "second":
            await turned_away(site)
        assert await turned_away(site) == TURNED_AWAY_AT_MOST


async def turned_away(site: Site) -> int:
    """How many of some clients that connect at once get an answer; all have left then."""
    clients = [await site.connect() for _ in range(TURNED_AWAY_AT_MOST + 9)]
    answers = [await client.rest() for client in clients]
    for client in clients:
        client.writer.close()
        await client.writer.wait_closed()
    assert {answer[9:12] for answer in answers} == {b"503", b""}
    return sum(map(bool, answers))


async def test_a_client_that_was_cut_off_while_it_was_answered_makes_room_for_another() -> None:
    async def answer(request: Request) -> Answer:
        return Answer(b"x" * 50_000_000 if request.path == "/flood" else b"ok")

    async with listening(answer, Limits(connections=1, write_s=0.05)) as site:
        client = await site.connect()
        await client.send("GET /flood HTTP/1.1\nhost: x\n\n")
        await client.head()
        status = 503
        async with asyncio.timeout(20):
            while status == 503:
                other = await site.connect()
                status = (await other.get("/")).status
                other.writer.close()


async def test_a_connection_whose_client_does_not_close_it_is_closed(echo: Echo) -> None:
    async with listening(echo.serve, Limits(linger_s=0.05)) as site:
        client = await site.connect()
        await client.send("GET / HTTP/1.1\nhost: x\nconnection: close\n\n")
        await client.reader.read()
        with pytest.raises(ConnectionError):
            await send_on(client)


async def send_on(client: Client) -> None:
    async with asyncio.timeout(20):
        while True:
            await client.send("more")


async def test_a_client_that_keeps_its_ended_connection_is_closed_for_another(echo: Echo) -> None:
    async with listening(echo.serve, Limits(connections=1, linger_s=3600.0)) as site:
        assert (await site.get("/", "connection: close\n")).status == 200
        assert (await site.get("/")).status == 200


@pytest.mark.parametrize("limits", [Limits(requests=0), Limits(connections=0)])
async def test_a_refusal_arrives_though_the_client_is_still_sending(
    limits: Limits, echo: Echo
) -> None:
    """A close with unread bytes resets the connection, and takes the answer with it."""
    async with listening(echo.serve, limits) as site:
        client = await site.connect()
        client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + b"x" * 200_000)
        assert (await client.head()).status == 503
        client.writer.write(b"x" * 200_000)
        async with asyncio.timeout(20):
            await client.reader.read()  # to the end: a reset would be raised here
        client.writer.close()


async def test_a_refused_client_sees_the_end_of_the_answer_while_the_server_waits_for_it(
    echo: Echo,
) -> None:
    async with listening(echo.serve, Limits(requests=0, linger_s=3600.0)) as site:
        client = await site.connect()
        assert (await client.get("/")).status == 503
        assert await client.rest() == b""


@pytest.mark.parametrize("said", ["", "GET / HT"])
async def test_idle_clients_are_closed_for_one_with_a_request(echo: Echo, said: str) -> None:
    async with listening(echo.serve, Limits(connections=3)) as site:
        following = await site.connect()
        await following.send("GET /stream HTTP/1.1\nhost: x\n\n")
        await following.reader.readuntil(b"one")
        idle = [await site.connect() for _ in range(2)]
        for client in idle:
            await client.get("/")
            await client.send(said)
        for _ in range(5):
            assert (await site.get("/")).status == 200
        for client in idle:
            assert await client.rest() == b""
        echo.more.set()
        assert await following.reader.readuntil(b"two")


async def test_a_client_that_sends_its_request_too_slowly_is_disconnected(echo: Echo) -> None:
    async with listening(echo.serve, Limits(head_s=0.05)) as site:
        client = await site.connect()
        await client.send("GET / HT")
        assert await client.rest() == b""


async def test_an_idle_client_is_disconnected(echo: Echo) -> None:
    async with listening(echo.serve, Limits(idle_s=0.05, head_s=3600.0)) as site:
        client = await site.connect()
        await client.get("/")
        assert await client.rest() == b""


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def flood(_: Request) -> Answer:
        return Answer(b"x" * 50_000_000)

    async with listening(flood, Limits(write_s=0.05)) as site:
        client = await site.connect()
        await client.send("GET / HTTP/1.1\nhost: x\n\n")
        await client.head()
        await asyncio.sleep(0.2)
        assert len(await client.rest()) < 50_000_000


async def test_a_client_that_does_not_read_does_not_delay_the_end_of_the_server() -> None:
    async def flood(_: Request) -> Answer:
        return Answer(b"x" * 50_000_000)

    async with asyncio.timeout(20), listening(flood, Limits(write_s=3600.0)) as site:
        client = await site.connect()
        await client.send("GET / HTTP/1.1\nhost: x\n\n")
        await client.head()


async def test_ending_the_server_ends_its_streams(echo: Echo) -> None:
    async with listening(echo.serve) as site:
        client = await site.connect()
        await client.send("GET /stream HTTP/1.1\nhost: x\n\n")
        await client.reader.readuntil(b"one")
        site.running.cancel()
        async with asyncio.timeout(20):
            await echo.ended.wait()


async def test_an_address_that_is_in_use_is_logged_once_and_used_as_soon_as_it_is_free(
    echo: Echo, log_lines: LogLines
) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with hearing() as heard:
        running = asyncio.create_task(HttpServer(Address("127.0.0.1", port), echo.serve).run())
        await heard.until("http.unavailable")
        taken.close()
        await heard.until("http.listening")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (told,) = log_lines.fields("http.unavailable")
    assert told["address"] == f"127.0.0.1:{port}"
    assert "in use" in told["error"]


async def test_two_simultaneous_clients_each_replace_another_idle_client(
    echo: Echo,
) -> None:
    async with listening(echo.serve, Limits(connections=2)) as site:
        idle = [await site.connect() for _ in range(2)]
        for client in idle:
            await client.get("/")
        arrived = []
        for _ in range(2):  # both before the server accepts either
            connected = socket.create_connection(("127.0.0.1", site.port))
            connected.sendall(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
            arrived.append(connected)
        for connected in arrived:
            client = Client(*await asyncio.open_connection(sock=connected))
            await client.reader.readuntil(b"one")
            idle.append(client)
        assert (await site.get("/")).status == 503
        for client in idle:
            client.writer.close()


async def test_a_server_on_ipv6_logs_its_address(echo: Echo) -> None:
    with hearing() as heard:
        running = asyncio.create_task(HttpServer(Address("::1", 0), echo.serve).run())
        said = await heard.until("http.listening")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert re.fullmatch(r"\[::1\]:\d+", str(said["address"]))

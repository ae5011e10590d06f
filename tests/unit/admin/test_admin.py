"""The admin socket end to end: a real server and a real client on a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent import logs
from agent.admin.client import ask_explanation, ask_status, watch
from agent.admin.server import MAX_REQUEST_BYTES, SOCKET, serve_admin
from agent.admin.service import AdminService
from agent.errors import NoAgentError
from agent.event_history import EventHistory
from agent.events.pools import PoolNote
from agent.rpc.agent import v1
from agent.status.state import AgentState
from tests.support.devices import host, pf, vf
from tests.support.hearing import hearing
from tests.support.log_lines import LogLines
from tests.support.moment import moment
from tests.support.pools import pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
NODE = host(PF0, *(vf(f"0000:3b:02.{i}", PF0, i) for i in range(2)))
STATE = moment(NODE, pool("net", {"pfNames": ["pf0"]}))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A run folder whose path is short, as socket paths must be."""
    with TemporaryDirectory(prefix="run-") as name:
        yield Path(name) / "sriov-agent"


class Served:
    """What the server's service has at hand."""

    def __init__(self) -> None:
        self.state = STATE
        self.history = EventHistory(clock=lambda: 7.25)
        self.service = AdminService(self.now, self.history, lambda v, d: f"{v}/{d}")

    def now(self) -> AgentState:
        return self.state


@asynccontextmanager
async def serving(folder: Path, served: Served | None = None) -> AsyncIterator[Served]:
    """A server that listens."""
    served = served or Served()
    with hearing() as heard:
        running = asyncio.create_task(serve_admin(folder, served.service))
        await heard.until("admin.listening")
    try:
        yield served
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_status_is_received_with_or_without_devices(folder: Path) -> None:
    async with serving(folder):
        short = await ask_status(folder, devices=False)
        whole = await ask_status(folder, devices=True)
    assert (short.version, short.ready, short.devices) == ("1.2.3", True, [])
    assert [d.id for d in whole.devices] == list(NODE.by_id)
    assert whole.pfs[0].title == "8086/1572"


async def test_an_interface_whose_name_is_not_text_can_be_reported(folder: Path) -> None:
    odd = pf("0000:3b:00.0", "pf\udcff", num_vfs=1)
    served = Served()
    served.state = moment(host(odd, vf("0000:3b:02.0", odd, 0)), pool("net"))
    async with serving(folder, served):
        told = await ask_status(folder, devices=True)
        explained = await ask_explanation(folder, "0000:3b:00.0")
    assert [p.name for p in told.pfs] == ["pf\\udcff"]
    facts = {fact.name: fact.value for fact in explained.device.facts} if explained.device else {}
    assert facts["netdev"].startswith("pf\\udcff (")


async def test_an_explanation_is_received(folder: Path) -> None:
    async with serving(folder):
        told = await ask_explanation(folder, "0000:3b:02.0")
        unknown = await ask_explanation(folder, "nett")
    assert told.device is not None
    assert told.device.pools[0].objects[0].verdicts[0].key == "pfNames"
    assert unknown.near == ["intel.com/net"]


async def test_events_are_followed_live(folder: Path) -> None:
    async with serving(folder) as served:
        leave = logs.follow(served.history.note)
        logs.emit(PoolNote(resource="r", note="past"))
        events = watch(folder, from_now=False)
        first = await anext(events)
        logs.emit(PoolNote(resource="r", note="now"))
        second = await anext(events)
        leave()
    assert [e.fields["note"] for e in (first, second)] == ["past", "now"]
    assert (second.number, second.time_s, second.level) == (2, 7.25, "warning")


async def test_the_past_can_be_left_out(folder: Path) -> None:
    async with serving(folder) as served:
        leave = logs.follow(served.history.note)
        logs.emit(PoolNote(resource="r", note="past"))
        following = asyncio.ensure_future(anext(watch(folder, from_now=True)))
        await ask_status(folder, devices=False)
        while not served.history._waiting:  # noqa: ASYNC110 - the server's own turn
            await asyncio.sleep(0)
        logs.emit(PoolNote(resource="r", note="now"))
        assert (await following).fields["note"] == "now"
        leave()


async def test_a_server_that_ends_ends_its_watchers(folder: Path) -> None:
    async with serving(folder) as served:
        leave = logs.follow(served.history.note)
        logs.emit(PoolNote(resource="r", note="x"))
        leave()
        events = watch(folder, from_now=False)
        await anext(events)
    with pytest.raises(NoAgentError):
        await anext(events)


async def test_only_the_owner_may_connect(folder: Path) -> None:
    async with serving(folder):
        assert (mode(folder / SOCKET), mode(folder)) == (0o600, 0o700)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
async def test_another_user_is_disconnected_even_if_the_file_mode_allows_the_connection(
    folder: Path,
) -> None:
    async with serving(folder):
        let_everybody_in(folder)
        assert await greeting(folder / SOCKET, user=12345) == b""
        assert await greeting(folder / SOCKET, user=0) != b""


def let_everybody_in(folder: Path) -> None:
    for path in (folder.parent, folder, folder / SOCKET):
        path.chmod(0o777)


async def greeting(path: Path, user: int) -> bytes:
    """The first bytes that the server says to a user; HTTP/2 servers speak first."""
    os.seteuid(user)
    try:
        reader, writer = await asyncio.open_unix_connection(str(path))
    finally:
        os.seteuid(0)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    try:
        async with asyncio.timeout(20):
            return await reader.read(9)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_the_socket_is_removed_with_the_server_and_an_unused_one_is_replaced(
    folder: Path,
) -> None:
    async with serving(folder):
        pass
    assert os.listdir(folder) == []
    leave_behind(folder / SOCKET, folder / f".{SOCKET}")
    async with serving(folder):
        assert (await ask_status(folder, devices=False)).pid == 42


def leave_behind(*paths: Path) -> None:
    for path in paths:
        path.touch()


async def test_a_second_agent_does_not_touch_the_first_ones_socket_and_takes_over_later(
    folder: Path, log_lines: LogLines
) -> None:
    first, second = Served(), Served()
    second.state = moment(host())
    with ExitStack() as listening:
        async with serving(folder, first):
            with hearing() as heard:
                waiting = asyncio.create_task(serve_admin(folder, second.service))
                await heard.until("admin.unavailable")
                assert len((await ask_status(folder, devices=False)).pools) == 1
            heard = listening.enter_context(hearing())  # it may take over while the first ends
        await heard.until("admin.listening")
    assert (await ask_status(folder, devices=False)).pools == []
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    (told,) = log_lines.fields("admin.unavailable")
    assert told["error"] == "another agent serves it"


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("below", "error"),
    [("file/sriov-agent", "Not a directory"), ("x" * 120, "AF_UNIX path too long")],
)
async def test_a_folder_that_cannot_be_used_is_logged_once_and_tried_again(
    folder: Path, log_lines: LogLines, below: str, error: str
) -> None:
    leave_behind(folder.parent / "file")
    serving = asyncio.create_task(serve_admin(folder.parent / below, Served().service))
    await asyncio.sleep(10.0)
    assert not serving.done()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    (told,) = log_lines.fields("admin.unavailable")
    assert error in told["error"]


async def test_a_folder_that_becomes_usable_later_gets_its_socket(folder: Path) -> None:
    leave_behind(folder)
    with hearing() as heard:
        serving = asyncio.create_task(serve_admin(folder, Served().service))
        await heard.until("admin.unavailable")
        folder.unlink()  # noqa: ASYNC240 - a test
        await heard.until("admin.listening")
    assert (await ask_status(folder, devices=False)).pid == 42
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_bug_affects_one_answer_and_is_logged(folder: Path, log_lines: LogLines) -> None:
    async with serving(folder) as served:
        served.state = None  # type: ignore[assignment]
        with pytest.raises(NoAgentError, match="internal error in the agent: see its log"):
            await ask_status(folder, devices=False)
        served.state = STATE
        assert (await ask_status(folder, devices=False)).ready
    assert log_lines.fields("admin.failed")[0]["method"] == "Status"


@pytest.mark.parametrize("turns", range(5))
async def test_a_client_that_connects_while_the_server_ends_is_disconnected(
    folder: Path, turns: int
) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as late:
        late.setblocking(False)
        async with serving(folder):
            await loop.sock_connect(late, str(folder / SOCKET))
            for _ in range(turns):
                await asyncio.sleep(0)
        with suppress(ConnectionResetError):
            async with asyncio.timeout(20):
                while await loop.sock_recv(late, 4096):
                    pass


async def test_a_request_that_is_too_long_is_refused(folder: Path) -> None:
    async with serving(folder), Channel(path=str(folder / SOCKET)) as channel:
        with pytest.raises(GRPCError) as raised:
            await v1.AdminStub(channel).explain(v1.ExplainRequest("x" * (MAX_REQUEST_BYTES + 1)))
    assert raised.value.status is Status.RESOURCE_EXHAUSTED


async def test_without_an_agent_the_path_is_named(folder: Path) -> None:
    with pytest.raises(NoAgentError, match="is the agent running here"):
        await ask_status(folder, devices=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
async def test_a_socket_that_another_user_created_is_not_trusted(folder: Path) -> None:
    async with serving(folder):
        os.chown(folder / SOCKET, 12345, -1)
        with pytest.raises(NoAgentError, match="created by user 12345"):
            await ask_status(folder, devices=False)

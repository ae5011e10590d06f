from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import aiofiles
import aiofiles.os
import pytest

from agent import blocking
from agent.blocking import NoThreadError
from agent.file_threads import FileThreads
from tests.support.log_lines import LogLines


@pytest.fixture(autouse=True)
def _fresh_threads() -> Iterator[None]:
    with patch.dict(blocking._workers, clear=True):
        yield


class Gate:
    """A call that hangs until it is opened, as one on a mount whose server is dead."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.begun = threading.Event()
        self.invalidated = threading.Event()

    def work(self) -> str:
        self.begun.set()
        assert self._open.wait(20)
        return "late"

    def undo(self, result: str) -> None:
        assert result == "late"
        self.invalidated.set()

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@contextmanager
def no_further_thread() -> Iterator[None]:
    error = RuntimeError("can't start new thread")
    with patch.object(threading.Thread, "start", side_effect=error):
        yield


async def until_nothing_hangs() -> None:
    answers = asyncio.Event()
    end = blocking.on_change(lambda: None if blocking.hanging() else answers.set())
    while blocking.hanging():
        await answers.wait()
    end()


async def test_a_call_returns_its_result_from_a_thread_that_is_kept() -> None:
    first = await blocking.call("files", "/x", threading.current_thread)
    assert first is not threading.current_thread()
    assert first.daemon
    assert await blocking.call("files", "/x", threading.current_thread) is first


def test_a_caller_that_cannot_await_continues_after_the_limit_and_the_late_result_is_undone(
    gate: Gate,
) -> None:
    assert blocking.call_now("files", "/x", lambda: 7, limit_s=20) == 7
    with pytest.raises(TimeoutError, match=r"no result within 0\.5 s.*/dead"):
        blocking.call_now("files", "/dead", gate.work, limit_s=0.5, undo=gate.undo)
    gate.open()
    assert gate.invalidated.wait(20)


async def test_errors_of_the_system_and_bugs_pass_through() -> None:
    for error in (OSError(errno.EROFS, "read-only"), ZeroDivisionError(), RuntimeError("a bug")):

        def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as raised:
            await blocking.call("files", "/x", fail)
        assert raised.value is error


async def test_a_circle_of_links_is_the_same_error_on_every_python(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    def resolve() -> Path:
        raise RuntimeError(f"Symlink loop from {str(circle)!r}")

    with pytest.raises(OSError, match="circle") as raised:
        await blocking.call("files", circle, resolve)
    assert raised.value.errno == errno.ELOOP


async def test_a_call_that_hangs_affects_only_its_own_purpose(
    gate: Gate, log_lines: LogLines
) -> None:
    with pytest.raises(TimeoutError, match="/dead"):
        await blocking.call("files", "/dead", gate.work, limit_s=0.01)
    assert [(h.purpose, h.path) for h in blocking.hanging()] == [("files", "/dead")]
    reached = []
    with pytest.raises(TimeoutError, match="/dead has been hanging for"):
        await blocking.call("files", "/other", lambda: reached.append(1), limit_s=None)
    assert await blocking.call("others", "/fine", lambda: "answer") == "answer"
    gate.open()
    await until_nothing_hangs()
    assert not reached
    assert await blocking.call("files", "/dead", lambda: "answer") == "answer"
    assert log_lines.events() == ["file.hangs", "file.answers"]
    assert log_lines.fields("file.hangs") == [{"purpose": "files", "path": "/dead"}]


async def test_a_result_that_arrives_too_late_is_undone(gate: Gate) -> None:
    with pytest.raises(TimeoutError):
        await blocking.call("files", "/dead", gate.work, limit_s=0.01, undo=gate.undo)
    gate.open()
    assert await asyncio.to_thread(gate.invalidated.wait, 20)


async def test_a_result_whose_caller_was_cancelled_is_undone(gate: Gate) -> None:
    asked = asyncio.create_task(blocking.call("files", "/x", gate.work, undo=gate.undo))
    assert await asyncio.to_thread(gate.begun.wait, 20)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    gate.open()
    assert await asyncio.to_thread(gate.invalidated.wait, 20)


async def test_a_call_that_was_cancelled_before_it_started_is_not_made(gate: Gate) -> None:
    asked = asyncio.create_task(blocking.call("files", "/x", gate.work))
    assert await asyncio.to_thread(gate.begun.wait, 20)
    reached: list[int] = []
    with pytest.raises(TimeoutError):
        await blocking.call("files", "/y", lambda: reached.append(1), limit_s=0.01)
    gate.open()
    assert await asked == "late"
    await blocking.call("files", "/x", lambda: None)
    assert not reached


async def test_existing_threads_work_while_no_further_one_can_be_created() -> None:
    blocking.prepare("early")
    with no_further_thread():
        blocking.prepare("late")
        assert await blocking.call("early", "/x", lambda: "answer") == "answer"
        with pytest.raises(NoThreadError, match="limit of processes") as raised:
            await blocking.call("late", "/x", lambda: "answer")
        assert raised.value.errno == errno.EAGAIN
        assert raised.value.filename == "/x"
    assert await blocking.call("late", "/x", lambda: "answer") == "answer"


async def test_if_a_second_thread_cannot_be_created_the_first_one_does_all_the_work() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go.wait(20)
        return "slow"

    asked = asyncio.create_task(blocking.call("answers", "/x", slow, limit_s=None))
    assert await asyncio.to_thread(begun.wait, 20)
    with no_further_thread():
        then = asyncio.create_task(blocking.call("answers", "/x", os.getpid, limit_s=None))
        await asyncio.sleep(0)
        go.set()
        assert (await asked, await then) == ("slow", os.getpid())


async def test_work_without_files_runs_on_the_loop_if_there_is_no_thread() -> None:
    with no_further_thread():
        assert await blocking.compute("answers", threading.current_thread) is (
            threading.current_thread()
        )
    assert await blocking.compute("answers", threading.current_thread) is not (
        threading.current_thread()
    )


def test_a_call_that_returns_after_the_loop_has_ended_reports_nothing(gate: Gate) -> None:
    async def leave_early() -> None:
        with pytest.raises(TimeoutError):
            await blocking.call("files", "/dead", gate.work, limit_s=0.01, undo=gate.undo)

    asyncio.run(leave_early())
    gate.open()
    assert gate.invalidated.wait(20)
    assert asyncio.run(blocking.call("files", "/x", lambda: "answer")) == "answer"


async def test_files_of_aiofiles_are_read_in_the_threads_of_their_purpose(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    names: list[str] = []

    def opener(name: str, flags: int) -> int:
        names.append(threading.current_thread().name)
        return os.open(name, flags)

    files = FileThreads("configuration", path)
    async with files.open(path, opener) as file:
        assert await file.read() == b"content"
    assert asyncio.get_running_loop()._default_executor is None  # type: ignore[attr-defined] # no other hook
    with pytest.raises(FileNotFoundError):
        await aiofiles.os.stat(tmp_path / "missing", executor=files)
    assert names == ["configuration"]


@pytest.mark.parametrize("how", ["too late", "cancelled"])
async def test_a_file_that_opens_after_its_caller_stopped_waiting_is_closed_again(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "file"
    path.touch()
    descriptors: list[int] = []

    def opener(name: str, flags: int) -> int:
        gate.work()
        descriptors.append(os.open(name, flags))
        return descriptors[0]

    monkeypatch.setattr(blocking, "LIMIT_S", 0.05 if how == "too late" else 60.0)
    opening = asyncio.create_task(_open(path, opener))
    assert await asyncio.to_thread(gate.begun.wait, 20)
    if how == "cancelled":
        opening.cancel()
    with pytest.raises((TimeoutError, asyncio.CancelledError)):
        await opening
    gate.open()
    async with asyncio.timeout(20):
        while not descriptors or _is_open(descriptors[0]):  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.001)


async def _open(path: Path, opener: Callable[[str, int], int]) -> None:
    async with FileThreads("configuration", path).open(path, opener):
        pass


def _is_open(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").exists()

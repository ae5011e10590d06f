"""When the configuration is read: scripted events and reads, in virtual time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiofiles.os
import attrs
import pytest

from agent import blocking
from agent.bus import Bus
from agent.config import watcher as watcher_module
from agent.config.load import Loaded
from agent.config.schema import Config
from agent.config.source import SourceResult, SourceState
from agent.config.watcher import QUIET_S, RETRY_S, ConfigChanged, ConfigWatcher
from agent.errors import ConfigError
from agent.inotify import EntryChanged, LookAgain
from tests.support.log_lines import LogLines
from tests.support.scripted import now

pytestmark = pytest.mark.looptime

FILE = Path("/config/config.json")
GOOD = b'{"resourceList": [{"resourceName": "net", "selectors": {"vendors": ["8086"]}}]}'
OTHER = GOOD.replace(b"net", b"other")
UNREADABLE = SourceResult(FILE, SourceState.UNUSABLE, message="cannot be read", is_fault=True)


def content(data: bytes) -> SourceResult:
    """A file that could be read."""
    return SourceResult(FILE, SourceState.READ, data)


@attrs.define
class ScriptedFile:
    """Answers the reads of the configuration, and notes their times."""

    source: SourceResult
    reads: list[float] = attrs.Factory(list)
    isdir: bool = False
    watched: list[tuple[Path, ...]] = attrs.Factory(list)
    """The single files of each watch."""
    events: asyncio.Queue[EntryChanged | LookAgain] = attrs.Factory(asyncio.Queue)

    async def read(self, _path: Path, _node_name: str | None) -> SourceResult:
        self.reads.append(now())
        return self.source

    async def is_folder(self, _path: Path, executor: object) -> bool:
        assert executor is not None
        return self.isdir

    def watch(self, _folders: Iterable[Path], *, files: tuple[Path, ...], purpose: str) -> Watch:
        assert purpose
        self.watched.append(files)
        return Watch(self.events)


@attrs.define
class Watch:
    """Stands for a watch of folders."""

    events: asyncio.Queue[EntryChanged | LookAgain]

    async def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    async def __aiter__(self) -> AsyncIterator[EntryChanged | LookAgain]:
        while True:
            yield await self.events.get()


@pytest.fixture
async def file(monkeypatch: pytest.MonkeyPatch) -> ScriptedFile:
    scripted = ScriptedFile(content(GOOD))
    monkeypatch.setattr(watcher_module, "read_source", scripted.read)
    monkeypatch.setattr(watcher_module, "DirectoryWatch", scripted.watch)
    monkeypatch.setattr(aiofiles.os.path, "isdir", scripted.is_folder)
    return scripted


def watcher_of(bus: Bus | None = None, path: Path = FILE) -> ConfigWatcher:
    return ConfigWatcher(
        path, bus or Bus(), prefix="intel.com", node_name="worker-1", strict=False, cdi=False
    )


@asynccontextmanager
async def running(watcher: ConfigWatcher) -> AsyncIterator[None]:
    """The watcher at work, after its first read of what may have changed since the start."""
    task = asyncio.create_task(watcher.run())
    await asyncio.sleep(1.0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_file_is_read_once_when_nothing_more_happens_to_it(file: ScriptedFile) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        file.reads.clear()
        began = now()
        for _ in range(3):
            file.events.put_nowait(EntryChanged(FILE, present=True))
            await asyncio.sleep(QUIET_S * 0.9)
        await asyncio.sleep(1.0)
        assert file.reads == [pytest.approx(began + 3 * QUIET_S)]


@pytest.mark.parametrize("name", ["config.json", "worker-1", "..data"])
async def test_an_event_of_a_name_that_matters_has_the_file_read(
    file: ScriptedFile, name: str
) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        file.reads.clear()
        file.events.put_nowait(EntryChanged(FILE.with_name(name), present=True))
        await asyncio.sleep(1.0)
        assert len(file.reads) == 1


async def test_an_event_of_another_name_does_not_have_the_file_read(file: ScriptedFile) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        file.reads.clear()
        file.events.put_nowait(EntryChanged(FILE.with_name("other"), present=True))
        await asyncio.sleep(1.0)
        assert file.reads == []


async def test_the_file_is_read_after_events_were_lost(file: ScriptedFile) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        file.reads.clear()
        file.events.put_nowait(LookAgain())
        await asyncio.sleep(1.0)
        assert len(file.reads) == 1


async def test_a_change_before_the_watch_began_is_seen(file: ScriptedFile) -> None:
    bus = Bus()
    watcher = watcher_of(bus)
    changed: list[ConfigChanged] = []
    bus.on(ConfigChanged, changed.append)
    await watcher.start()
    file.source = content(OTHER)
    async with running(watcher):
        assert [p.name for p in watcher.config.pools] == ["other"]
    assert changed == [ConfigChanged(watcher.config)]


@pytest.mark.parametrize("isdir", [True, False])
async def test_a_single_file_is_watched_itself_and_a_folder_is_not(
    file: ScriptedFile, *, isdir: bool
) -> None:
    file.isdir = isdir
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        assert file.watched == [() if isdir else (FILE,)]


async def test_a_file_that_became_unreadable_is_tried_again_until_it_is_not(
    file: ScriptedFile,
) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        file.reads.clear()
        began, file.source = now(), UNREADABLE
        file.events.put_nowait(EntryChanged(FILE, present=True))
        await asyncio.sleep(2.5 * RETRY_S)
        assert watcher.status.rejected == "cannot be read"
        assert watcher.status.failures == 1
        file.source = content(OTHER)
        await asyncio.sleep(3 * RETRY_S)
        assert (watcher.status.rejected, watcher.status.reloads) == ("", 1)
        pause = RETRY_S + QUIET_S
        assert file.reads == [pytest.approx(began + QUIET_S + n * pause) for n in range(4)]


async def test_at_the_start_a_file_that_cannot_be_read_is_tried_at_intervals(
    file: ScriptedFile, log_lines: LogLines
) -> None:
    file.source, watcher = UNREADABLE, watcher_of()
    starting = asyncio.create_task(watcher.start())
    await asyncio.sleep(2.5 * RETRY_S)
    assert file.reads == [0.0, RETRY_S, 2 * RETRY_S]
    assert (watcher.status.rejected, watcher.status.in_force) == ("cannot be read", False)
    assert watcher.config == Config()
    assert len(log_lines.fields("config.unreadable")) == 1
    file.source = content(GOOD)
    await starting
    assert now() == 3 * RETRY_S
    assert (watcher.status.rejected, watcher.status.in_force) == ("", True)


async def test_sighup_has_the_file_read_at_once_while_the_start_waits_for_it(
    file: ScriptedFile,
) -> None:
    file.source, watcher = UNREADABLE, watcher_of()
    starting = asyncio.create_task(watcher.start())
    await asyncio.sleep(1.0)
    hang_up()
    await asyncio.sleep(RETRY_S - 1.0)
    assert file.reads == [0.0, 1.0]
    await asyncio.sleep(2.0)
    assert file.reads == [0.0, 1.0, 1.0 + RETRY_S]
    file.source = content(GOOD)
    await starting


async def test_sighup_has_the_file_read_and_says_so_if_nothing_changed(
    file: ScriptedFile, log_lines: LogLines
) -> None:
    watcher = watcher_of()
    await watcher.start()
    async with running(watcher):
        assert log_lines.fields("config.unchanged") == []
        for times in (1, 2):
            hang_up()
            await asyncio.sleep(1.0)
            assert log_lines.fields("config.unchanged") == [{"path": str(FILE)}] * times
        file.source = content(OTHER)
        hang_up()
        await asyncio.sleep(1.0)
        assert [p.name for p in watcher.config.pools] == ["other"]
        assert log_lines.fields("config.reloaded") == [{"path": str(FILE), "pools": 1}]


def hang_up() -> None:
    """Send SIGHUP to this process, if it handles the signal: otherwise it would end."""
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
    signal.raise_signal(signal.SIGHUP)


async def test_each_reload_is_counted_and_published_only_if_the_pools_differ(
    file: ScriptedFile, log_lines: LogLines
) -> None:
    bus = Bus()
    changed: list[ConfigChanged] = []
    bus.on(ConfigChanged, changed.append)
    watcher = watcher_of(bus)
    await watcher.start()
    async with running(watcher):
        assert (watcher.status.reloads, changed) == (0, [])
        assert log_lines.fields("config.loaded") == [{"path": str(FILE), "pools": 1}]
        assert log_lines.fields("config.reloaded") == []
        for reloads, data in enumerate((GOOD + b"\n", OTHER, GOOD), 1):
            file.source = content(data)
            await watcher.reload()
            assert watcher.status.reloads == reloads
            assert len(changed) == reloads - 1
        assert len(log_lines.fields("config.reloaded")) == 3


async def test_each_rejected_reload_is_counted(file: ScriptedFile, log_lines: LogLines) -> None:
    watcher = watcher_of()
    await watcher.start()
    for failures, data in enumerate((b"{", b"[]"), 1):
        file.source = content(data)
        await watcher.reload()
        assert (watcher.status.failures, watcher.status.reloads) == (failures, 0)
        assert watcher.status.rejected
    assert len(log_lines.fields("config.rejected")) == 2
    assert len(log_lines.fields("config.error")) == 2


@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.UNUSABLE])
async def test_a_file_that_is_lost_is_rejected_and_its_pools_stay(
    file: ScriptedFile, state: SourceState
) -> None:
    watcher = watcher_of()
    await watcher.start()
    file.source = SourceResult(FILE, state, message="it is lost")
    await watcher.reload()
    assert (watcher.status.rejected, watcher.status.failures) == ("it is lost", 1)
    assert [p.name for p in watcher.config.pools] == ["net"]


@pytest.mark.parametrize("state", [SourceState.NO_KEY, SourceState.AWAITED])
async def test_a_file_that_may_still_come_is_said_to_be_awaited(
    file: ScriptedFile, log_lines: LogLines, state: SourceState
) -> None:
    idle = SourceResult(FILE, state, message="no pools until it appears")
    watcher = watcher_of()
    await watcher.start()
    file.source = idle
    await watcher.reload()
    assert (watcher.status.idle, watcher.config.pools) == (idle.message, ())
    expected = [{"path": str(FILE), "reason": idle.message}]
    assert log_lines.fields("config.idle") == expected
    await watcher_of().start()
    assert log_lines.fields("config.idle") == expected * 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (SourceResult(FILE, SourceState.MISSING, message="it is missing"), "it is missing"),
        (SourceResult(FILE, SourceState.UNUSABLE, message="it is a pipe"), "it is a pipe"),
        (content(b"{"), f"nothing in {FILE} can be used"),
        (content(b'{"resourceList": [{"selectors": {}}]}'), f"nothing in {FILE} can be used"),
    ],
)
async def test_a_start_without_any_usable_pool_is_refused(
    file: ScriptedFile, source: SourceResult, message: str
) -> None:
    file.source, watcher = source, watcher_of()
    with pytest.raises(ConfigError, match=message) as refused:
        await watcher.start()
    assert bool(refused.value.problems) == (source.state is SourceState.READ)
    assert not watcher.status.in_force


async def test_pools_with_errors_are_refused_at_the_start_by_name_or_number(
    file: ScriptedFile, log_lines: LogLines
) -> None:
    good = b'{"resourceName": "net", "selectors": {"vendors": ["8086"]}}'
    bad = b'{"resourceName": "bad", "selectors": {"vendors": 5}}, {"selectors": {}}'
    file.source = content(b'{"unknown": 1, "resourceList": [%s, %s]}' % (bad, good))
    watcher = watcher_of()
    await watcher.start()
    assert watcher.status.refused == ("intel.com/bad", "resourceList[1]")
    assert [r["index"] for r in log_lines.fields("config.pool_refused")] == [0, 1]
    assert "$.unknown" in [w["path"] for w in log_lines.fields("config.warning")]
    assert all("resourceList" in e["path"] for e in log_lines.fields("config.error"))
    assert len(log_lines.fields("config.error")) == 2
    file.source = content(GOOD)
    await watcher.reload()
    assert not watcher.status.refused


@pytest.mark.parametrize(
    ("size", "is_beside_the_loop"), [(32 * 1024, False), (32 * 1024 + 1, True)]
)
async def test_a_large_file_is_read_beside_the_loop(
    file: ScriptedFile, monkeypatch: pytest.MonkeyPatch, size: int, *, is_beside_the_loop: bool
) -> None:
    purposes: list[str] = []

    async def compute(purpose: str, work: partial[Loaded]) -> Loaded:
        purposes.append(purpose)
        return work()

    monkeypatch.setattr(blocking, "compute", compute)
    file.source = content(GOOD.ljust(size))
    await watcher_of().start()
    assert purposes == (["configuration"] if is_beside_the_loop else [])

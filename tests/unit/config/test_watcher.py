from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.bus import Bus
from agent.config import watcher as keeper_module
from agent.config.watcher import ConfigChanged, ConfigWatcher
from agent.events.config import ConfigRejected
from tests.support.log_lines import LogLines

GOOD = '{"resourceList": [{"resourceName": "net", "selectors": {"vendors": ["8086"]}}]}'


def keeper_of(path: Path, node_name: str | None = None) -> ConfigWatcher:
    return ConfigWatcher(
        path, Bus(), prefix="intel.com", node_name=node_name, strict=False, cdi=False
    )


async def lost_its_file(folder: Path) -> ConfigWatcher:
    """A keeper that began with a file in the folder, which has gone since."""
    file = folder / "config.json"
    file.write_text(GOOD)
    config_watcher = keeper_of(folder)
    await config_watcher.start()
    file.unlink()
    await config_watcher.reload()
    return config_watcher


async def test_removing_a_file_from_a_plain_folder_removes_no_pools(
    tmp_path: Path, log_lines: LogLines
) -> None:
    config_watcher = await lost_its_file(tmp_path)
    assert [p.name for p in config_watcher.config.pools] == ["net"]
    (rejected,) = log_lines.fields("config.rejected")
    assert rejected["reason"].startswith(f"{tmp_path} holds no config.json")
    (tmp_path / "config.json").write_text(GOOD)
    await config_watcher.reload()
    assert config_watcher.status.rejected == ""


async def test_removing_a_key_from_a_config_map_removes_its_pools(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    config_watcher = await lost_its_file(tmp_path)
    assert (config_watcher.config.pools, config_watcher.status.rejected) == ((), "")


@pytest.mark.parametrize("is_config_map", [True, False])
async def test_a_folder_without_a_file_at_the_start_is_idle_until_one_comes(
    tmp_path: Path, *, is_config_map: bool
) -> None:
    if is_config_map:
        (tmp_path / "..data").mkdir()
    config_watcher = keeper_of(tmp_path, "worker-1")
    await config_watcher.start()
    await config_watcher.reload()
    assert (config_watcher.config.pools, config_watcher.status.in_force) == ((), True)
    assert config_watcher.status.rejected == ""
    assert "holds neither worker-1 nor config.json" in config_watcher.status.idle
    (tmp_path / "worker-1").write_text(GOOD)
    await config_watcher.reload()
    assert (config_watcher.status.path, config_watcher.status.idle) == (
        str(tmp_path / "worker-1"),
        "",
    )
    assert [p.name for p in config_watcher.config.pools] == ["net"]


async def test_a_folder_that_cannot_be_read_keeps_the_loaded_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.json").write_text(GOOD)
    config_watcher = keeper_of(folder)
    await config_watcher.start()
    folder.rename(tmp_path / "away")
    folder.symlink_to(folder)
    await config_watcher.reload()
    assert [p.name for p in config_watcher.config.pools] == ["net"]
    assert "Too many levels of symbolic links" in config_watcher.status.rejected


WITHIN_S = 20.0


class Followed:
    """A keeper at work; notes each configuration that it puts in force."""

    def __init__(self, config_watcher: ConfigWatcher, bus: Bus) -> None:
        self.config_watcher = config_watcher
        self.rejected = asyncio.Event()
        self._changed = asyncio.Event()
        bus.on(ConfigChanged, lambda _: self._changed.set())
        bus.on(ConfigRejected, lambda _: self.rejected.set())

    async def next_pools(self) -> list[str]:
        """The names of the pools of the next configuration that differs."""
        async with asyncio.timeout(WITHIN_S):
            await self._changed.wait()
        self._changed.clear()
        return [p.name for p in self.config_watcher.config.pools]


@asynccontextmanager
async def followed(path: Path, node_name: str | None = None) -> AsyncIterator[Followed]:
    bus = Bus()
    config_watcher = ConfigWatcher(
        path, bus, prefix="intel.com", node_name=node_name, strict=False, cdi=False
    )
    await config_watcher.start()
    running = asyncio.create_task(config_watcher.run())
    try:
        yield Followed(config_watcher, bus)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def named(name: str) -> str:
    return GOOD.replace("net", name)


@pytest.mark.parametrize("key", ["worker-1", "config.json"])
async def test_edits_of_a_key_in_a_plain_folder_are_followed(tmp_path: Path, key: str) -> None:
    file = tmp_path / key
    file.write_text(GOOD)
    async with followed(tmp_path, "worker-1") as follower:
        file.write_text(named("first"))
        assert await follower.next_pools() == ["first"]
        # From here on only the watch can notice an edit.
        file.write_text(named("second"))
        assert await follower.next_pools() == ["second"]


async def test_a_file_that_becomes_readable_without_an_event_is_read_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "RETRY_S", 0.01)  # five seconds otherwise
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "config"
    folder.mkdir()
    elsewhere.symlink_to(elsewhere)
    (folder / "config.json").write_text(GOOD)
    async with followed(folder / "config.json") as follower:
        link = folder / "link"
        link.symlink_to(elsewhere / "real")
        link.rename(folder / "config.json")
        async with asyncio.timeout(WITHIN_S):
            await follower.rejected.wait()
        elsewhere.unlink()
        elsewhere.mkdir()
        (elsewhere / "real").write_text(named("mended"))
        assert await follower.next_pools() == ["mended"]


async def test_an_edit_with_errors_keeps_the_pools_and_is_reported_with_its_first_error(
    tmp_path: Path, log_lines: LogLines
) -> None:
    file = tmp_path / "config.json"
    file.write_text(GOOD)
    config_watcher = keeper_of(file)
    await config_watcher.start()
    file.write_text(GOOD.replace('"net"', '"no/name"'))
    await config_watcher.reload()
    assert [p.name for p in config_watcher.config.pools] == ["net"]
    assert "no/name" in config_watcher.status.rejected
    assert len(log_lines.fields("config.rejected")) == 1


async def test_an_unchanged_file_is_mentioned_only_after_sighup(
    tmp_path: Path, log_lines: LogLines
) -> None:
    file = tmp_path / "config.json"
    file.write_text(GOOD)
    config_watcher = keeper_of(file)
    await config_watcher.start()
    await config_watcher.reload()
    assert not log_lines.fields("config.unchanged")
    await config_watcher.reload(asked=True)
    assert log_lines.fields("config.unchanged") == [{"path": str(file)}]


async def rejection(folder: Path, edit: str) -> str:
    """Why an edit of a valid file in a folder is refused."""
    file = folder / "config.json"
    file.write_text(GOOD)
    async with followed(file) as follower:
        file.write_text(edit)
        async with asyncio.timeout(WITHIN_S):
            await follower.rejected.wait()
        return follower.config_watcher.status.rejected


async def test_a_refused_edit_says_how_many_more_errors_there_are(tmp_path: Path) -> None:
    edit = '{"resourceList": [{"resourceName": 1}, {"resourceName": 2}]}'
    reason = await rejection(tmp_path, edit)
    assert reason.endswith(" (and 3 more)")  # each pool lacks a name that is text, and selectors


async def test_a_refused_edit_with_one_error_does_not_mention_more_errors(tmp_path: Path) -> None:
    assert "more)" not in await rejection(tmp_path, '{"resourceList": 5}')

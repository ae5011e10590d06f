from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from agent.inotify import DirectoryWatch, EntryChanged, LookAgain, limit_of


class Follower:
    """Reads a watch's changes one after the other."""

    def __init__(self, watch: DirectoryWatch) -> None:
        self._changes: AsyncIterator[EntryChanged | LookAgain] = aiter(watch)

    async def next(self) -> EntryChanged | LookAgain:
        async with asyncio.timeout(10):
            return await anext(self._changes)

    async def until(self, wanted: EntryChanged | LookAgain) -> None:
        while await self.next() != wanted:
            pass


def queue_limit() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_entries_that_are_created_removed_and_written_are_reported(tmp_path: Path) -> None:
    with DirectoryWatch((tmp_path,)) as watch:
        follower = Follower(watch)
        (tmp_path / "a").symlink_to("nowhere")
        assert await follower.next() == EntryChanged(tmp_path / "a", present=True)
        (tmp_path / "a").rename(tmp_path / "b")
        assert await follower.next() == EntryChanged(tmp_path / "a", present=False)
        assert await follower.next() == EntryChanged(tmp_path / "b", present=True)
        (tmp_path / "b").unlink()
        assert await follower.next() == EntryChanged(tmp_path / "b", present=False)
        (tmp_path / "c").write_text("1")
        await follower.next()
        (tmp_path / "c").write_text("2")
        assert await follower.next() == EntryChanged(tmp_path / "c", present=True)


async def test_a_missing_directory_is_watched_once_it_is_created(tmp_path: Path) -> None:
    deep = tmp_path / "not" / "yet" / "there"
    with DirectoryWatch((deep,)) as watch:
        follower = Follower(watch)
        deep.mkdir(parents=True)
        assert await follower.next() == LookAgain()
        (deep / "x").touch()
        await follower.until(EntryChanged(deep / "x", present=True))


async def test_the_removal_of_a_directory_with_an_open_socket_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with DirectoryWatch((folder,)) as watch, socket.socket(socket.AF_UNIX) as bound:
        follower = Follower(watch)
        bound.bind(str(folder / "s.sock"))
        shutil.rmtree(folder)
        await follower.until(LookAgain())
        folder.mkdir()
        assert await follower.next() == LookAgain()
        (folder / "x").touch()
        await follower.until(EntryChanged(folder / "x", present=True))


async def test_a_directory_that_is_recreated_before_it_is_checked_is_watched(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with DirectoryWatch((folder,)) as watch:
        follower = Follower(watch)
        for _ in range(50):
            folder.rmdir()
            folder.mkdir()
        await follower.until(LookAgain())
        (folder / "x").touch()
        await follower.until(EntryChanged(folder / "x", present=True))


async def test_a_moved_ancestor_is_noticed_and_the_new_one_watched(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with DirectoryWatch((folder,)) as watch:
        follower = Follower(watch)
        (tmp_path / "a").rename(tmp_path / "old")
        await follower.until(LookAgain())
        (tmp_path / "old" / "b" / "stale").touch()
        folder.mkdir(parents=True)
        await follower.until(LookAgain())
        (folder / "x").touch()
        assert await follower.next() == EntryChanged(folder / "x", present=True)


async def test_a_link_in_the_path_that_gets_another_target_is_followed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "folder").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to("one")
    with DirectoryWatch((link / "folder",)) as watch:
        follower = Follower(watch)
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(link)
        await follower.until(LookAgain())
        (tmp_path / "two" / "folder" / "x").touch()
        await follower.until(EntryChanged(link / "folder" / "x", present=True))


async def test_a_configmap_swap_is_one_named_entry(tmp_path: Path) -> None:
    for version in ("..v1", "..v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.json").write_text(version)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "config.json").symlink_to("..data/config.json")
    with DirectoryWatch((), (tmp_path / "config.json",)) as watch:
        follower = Follower(watch)
        (tmp_path / "..tmp").symlink_to("..v2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        await follower.until(EntryChanged(tmp_path / "..data", present=True))


async def test_a_file_that_is_rewritten_in_place_is_reported(tmp_path: Path) -> None:
    # A hard link stands in for a bind mount: the directory that is watched hears nothing.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "config.json"
    file.write_text("1")
    os.link(file, tmp_path / "elsewhere" / "file")
    with DirectoryWatch((), (file,)) as watch:
        follower = Follower(watch)
        (tmp_path / "elsewhere" / "file").write_text("2")
        assert await follower.next() == EntryChanged(file, present=True)


async def test_after_a_file_is_replaced_the_new_one_is_watched(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "config.json"
    file.parent.mkdir()
    file.write_text("1")
    with DirectoryWatch((), (file,)) as watch:
        follower = Follower(watch)
        (tmp_path / "new").write_text("2")
        os.link(tmp_path / "new", tmp_path / "other")
        (tmp_path / "new").rename(file)
        await follower.until(EntryChanged(file, present=True))
        (tmp_path / "other").write_text("3")
        await follower.until(EntryChanged(file, present=True))


async def test_lost_events_cause_one_more_check_and_the_watch_continues(tmp_path: Path) -> None:
    limit = queue_limit()
    with DirectoryWatch((tmp_path,)) as watch:
        follower = Follower(watch)
        for i in range(limit // 2 + 1):
            # Two names in turn, or the kernel would merge equal events.
            (tmp_path / f"{i % 2}").symlink_to("x")
            (tmp_path / f"{i % 2}").unlink()
        await follower.until(LookAgain())
        (tmp_path / "after").touch()
        await follower.until(EntryChanged(tmp_path / "after", present=True))


async def test_entering_and_leaving_leaves_no_descriptor(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(5):
        with DirectoryWatch((tmp_path,)):
            pass
    assert open_files() == before


def test_the_limit_of_inotify_that_was_reached_is_logged_with_advice() -> None:
    told = {code: limit_of(OSError(code, "x")) for code in (errno.EMFILE, errno.ENOSPC, errno.EIO)}
    assert "fs.inotify.max_user_instances" in told[errno.EMFILE]
    assert "fs.inotify.max_user_watches" in told[errno.ENOSPC]
    assert told[errno.EIO] == str(OSError(errno.EIO, "x"))

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.export.atomic import in_folder, read_plain, remove_drafts, write_atomic, write_now
from agent.export.leftovers import remove_leftover_drafts
from agent.roots import Roots
from tests.support.inside import in_own_mounts, needs_root
from tests.support.usage import descriptors, without_descriptors

OLD, NEW = b"old content", b"new content"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def has_draft_with_content(folder: Path) -> bool:
    return any(draft.stat().st_size for draft in folder.glob("*.tmp"))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_a_new_file_has_content_and_mode_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    assert await write_atomic(path, NEW, 0o444)
    assert (path.read_bytes(), mode_of(path)) == (NEW, 0o444)
    assert names(path.parent) == ["file.json"]
    assert mode_of(path.parent) == 0o755


async def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        await write_atomic(tmp_path / "file", NEW, 0o644)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o644


async def test_a_file_without_write_permission_is_replaced_nevertheless(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o444)
    with path.open("rb") as reader:
        assert await write_atomic(path, NEW, 0o444)
        assert reader.read() == OLD
    assert path.read_bytes() == NEW


async def test_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert await write_atomic(path, NEW, 0o644)
    before = path.stat()
    assert not await write_atomic(path, NEW, 0o644)
    after = path.stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@pytest.mark.parametrize("there", [OLD, NEW], ids=["other content", "same content"])
async def test_a_symbolic_link_is_replaced_and_never_followed(tmp_path: Path, there: bytes) -> None:
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_bytes(there)
    path.symlink_to(target)
    assert await write_atomic(path, NEW, 0o644)
    assert not path.is_symlink()
    assert (path.read_bytes(), target.read_bytes()) == (NEW, there)


async def test_a_dangling_link_is_replaced_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.symlink_to(tmp_path / "nowhere")
    await write_atomic(path, NEW, 0o644)
    assert names(tmp_path) == ["file"]


async def test_a_fifo_at_the_path_is_replaced_without_waiting_for_its_writer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    os.mkfifo(path)
    assert await write_atomic(path, NEW, 0o644)
    assert path.read_bytes() == NEW


async def test_a_folder_at_the_path_is_an_error_and_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        await write_atomic(tmp_path / "file", NEW, 0o644)
    assert names(tmp_path) == ["file"]


async def test_readers_see_either_the_old_or_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + n]) * 200_000 for n in range(2)]
    path.write_bytes(contents[0])
    done = asyncio.Event()

    async def read() -> set[bytes]:
        seen = set()
        while not done.is_set():
            seen.add(await asyncio.to_thread(path.read_bytes))
        return seen

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read())
        for turn in range(100):
            await write_atomic(path, contents[turn % 2], 0o644)
        done.set()
    assert reading.result() <= set(contents)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_write_that_fails_keeps_the_old_file_and_leaves_no_draft(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    with file_size_limit(1 << 20), pytest.raises(OSError, match="large") as broken:
        await write_atomic(path, bytes(2 << 20), 0o644)
    assert broken.value.errno == errno.EFBIG
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["file"]


def on_tmpfs(folder: Path, options: str, data: bytes) -> tuple[int | None, bytes, list[str]]:
    """Write over an old file on a file system mounted so: errno, content and names after it."""

    def work() -> tuple[int | None, bytes, list[str]]:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
        (folder / "file").write_bytes(OLD)
        if options:
            subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
        try:
            write_now(folder / "file", data, 0o644)
        except OSError as error:
            return error.errno, (folder / "file").read_bytes(), names(folder)
        return None, (folder / "file").read_bytes(), names(folder)

    return in_own_mounts(work)


@pytest.mark.root
@needs_root
def test_a_full_file_system_keeps_the_old_file_and_leaves_no_draft(tmp_path: Path) -> None:
    assert on_tmpfs(tmp_path, "", bytes(100_000)) == (errno.ENOSPC, OLD, ["file"])
    assert on_tmpfs(tmp_path, "", NEW) == (None, NEW, ["file"])


@pytest.mark.root
@needs_root
def test_a_file_system_that_is_read_only_keeps_the_old_file(tmp_path: Path) -> None:
    assert on_tmpfs(tmp_path, "ro", NEW) == (errno.EROFS, OLD, ["file"])
    assert on_tmpfs(tmp_path, "ro", OLD) == (None, OLD, ["file"])


async def test_a_plain_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    assert await read_plain(path, len(OLD)) == OLD
    assert await read_plain(path, len(OLD) - 1) is None


async def test_an_entry_that_is_not_a_plain_file_has_no_content(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "missing"):
        assert await read_plain(tmp_path / name, 100) is None


async def test_a_file_that_cannot_be_read_at_present_is_not_treated_as_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(OLD)
    with without_descriptors(), pytest.raises(OSError, match="Too many open files"):
        await read_plain(tmp_path / "file", 100)
    assert await read_plain(tmp_path / "file", 100) == OLD


OURS = ".sriov-agent-0123456789abcdef.tmp"


def test_drafts_that_were_left_behind_are_removed_and_nothing_else(tmp_path: Path) -> None:
    keep = [".0123456789abcdef.tmp", ".hidden", ".sriov-agent-.tmp", f"{OURS}2", OURS[1:]]
    for name in (*keep, OURS):
        (tmp_path / name).touch()
    assert remove_drafts(tmp_path) == (OURS,)
    assert names(tmp_path) == sorted(keep)
    assert remove_drafts(tmp_path / "missing") == ()


@pytest.mark.parametrize("make", ["symlink", "folder", "fifo"])
def test_an_entry_with_a_drafts_name_that_is_not_a_plain_file_is_not_removed(
    tmp_path: Path, make: str
) -> None:
    if make == "symlink":
        (tmp_path / OURS).symlink_to(tmp_path / "elsewhere")
    elif make == "folder":
        (tmp_path / OURS).mkdir()
    else:
        os.mkfifo(tmp_path / OURS)
    assert remove_drafts(tmp_path) == ()
    assert names(tmp_path) == [OURS]


@pytest.mark.root
@needs_root
def test_a_draft_of_another_user_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / OURS).touch()
    os.chown(tmp_path / OURS, 65534, -1)
    assert remove_drafts(tmp_path) == ()


async def test_a_draft_is_complete_before_it_replaces_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents: list[bytes] = []
    replace = Path.replace

    def replace_after_a_look(draft: Path, target: Path) -> Path:
        contents.append(draft.read_bytes())
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", replace_after_a_look)
    assert await write_atomic(tmp_path / "file", NEW, 0o644)
    assert contents == [NEW]


async def test_a_draft_that_another_agent_is_writing_is_not_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[tuple[str, ...]] = []
    replace = Path.replace

    def replace_after_another_agents_start(draft: Path, target: Path) -> Path:
        removed.append(remove_drafts(tmp_path))
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", replace_after_another_agents_start)
    assert await write_atomic(tmp_path / "file", NEW, 0o644)
    assert removed == [()]
    assert (tmp_path / "file").read_bytes() == NEW


KILLED_BEFORE_RENAME = """
import asyncio, os, pathlib, signal, sys
from agent.export.atomic import write_atomic
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(write_atomic(pathlib.Path(sys.argv[1]), b"new", 0o444))
"""


async def test_the_draft_of_a_killed_write_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    roots = Roots(tmp_path)
    for folder in (roots.device_info, roots.cdi):
        killed = [sys.executable, "-c", KILLED_BEFORE_RENAME, str(folder / "file")]
        process = await asyncio.create_subprocess_exec(*killed)
        assert await process.wait() == -signal.SIGKILL
        (draft,) = names(folder)
        (folder / "kept").touch()
        assert draft in await remove_leftover_drafts(roots)
        assert names(folder) == ["kept"]
    assert await remove_leftover_drafts(roots) == ()


async def test_a_write_that_is_cancelled_is_finished_and_leaves_no_draft(tmp_path: Path) -> None:
    path, large = tmp_path / "file", bytes(2**26)
    path.write_bytes(OLD)
    writing = asyncio.create_task(write_atomic(path, large, 0o644))
    while not has_draft_with_content(tmp_path):
        await asyncio.sleep(0)
        assert not writing.done()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await read_plain(path, len(large)) == large
    assert names(tmp_path) == ["file"]


async def test_a_failed_write_names_the_file_and_not_the_draft(tmp_path: Path) -> None:
    """The name of a draft differs each time, and so would the message."""
    target = tmp_path / "file"
    target.mkdir()
    with pytest.raises(OSError, match="directory") as failed:
        await write_atomic(target, b"data", 0o644)
    assert (failed.value.filename, failed.value.filename2) == (str(target), None)


async def test_a_folder_that_hangs_does_not_delay_the_files_of_another_folder(
    tmp_path: Path,
) -> None:
    answers, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        answers.wait()

    hanging = asyncio.create_task(in_folder(tmp_path / "hangs", hang))
    await asyncio.sleep(0)
    assert begun.wait(20)
    try:
        path = tmp_path / "other" / "file"
        assert await write_atomic(path, NEW, 0o644)
        assert await read_plain(path, 100) == NEW
    finally:
        answers.set()
        await asyncio.gather(hanging, return_exceptions=True)


def test_a_draft_neither_replaces_nor_follows_an_entry_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    draft = tmp_path / f".sriov-agent-{'0' * 16}.tmp"
    draft.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_now(tmp_path / "file", NEW, 0o644)
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "file").exists()


def test_checking_drafts_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / OURS).touch()
    before = descriptors(os.getpid())
    assert remove_drafts(tmp_path) == (OURS,)
    assert descriptors(os.getpid()) == before


def test_drafts_that_cannot_be_listed_are_left_for_the_next_start(tmp_path: Path) -> None:
    (tmp_path / OURS).touch()
    with without_descriptors():
        assert remove_drafts(tmp_path) == ()
    assert remove_drafts(tmp_path) == (OURS,)


async def test_a_draft_is_readable_only_by_its_owner_until_it_has_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    fchmod = os.fchmod

    def observed_fchmod(fd: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        fchmod(fd, mode)

    monkeypatch.setattr(os, "fchmod", observed_fchmod)
    assert await write_atomic(tmp_path / "file", NEW, 0o644)
    assert modes == [0o600]
    assert mode_of(tmp_path / "file") == 0o644

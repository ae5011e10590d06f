from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from agent import blocking
from agent.bus import Bus
from agent.kubelet.events import LockFilesChanged, PluginFoldersChanged
from agent.kubelet.resource_locks import ResourceLocks
from agent.kubelet.watch import KubeletWatch
from agent.model.plugin_events import ResourceLocksChanged, ServerEnded
from agent.roots import LOCK_FOLDER, Roots
from tests.support.hearing import hearing

A, B, C = "intel.com/a", "intel.com/b", "intel.com/c"
HOLDER = """
import asyncio, sys
from pathlib import Path
from agent.bus import Bus
from agent.kubelet.resource_locks import ResourceLocks
from agent.roots import Roots

with ResourceLocks(Roots(Path(sys.argv[1])), Bus(), Path("/etc/first.json")) as locks:
    assert locks.want(sys.argv[2:]) == set(sys.argv[2:])
    print("held", flush=True)
    sys.stdin.read()
"""


@asynccontextmanager
async def holder(roots: Roots, *resources: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that has locked the resources."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(roots.host), *resources),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def running(locks: ResourceLocks, roots: Roots, bus: Bus) -> AsyncIterator[None]:
    """The locks as the agent runs them: beside the watch of kubelet's folders."""
    async with KubeletWatch(roots, bus) as watch:
        tasks = [asyncio.create_task(watch.run()), asyncio.create_task(locks.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until(bus: Bus, condition: Callable[[], bool]) -> None:
    with bus.subscribe(ResourceLocksChanged) as changed:
        async with asyncio.timeout(20):
            while not condition():
                await changed.take()


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records]


def lock_file(roots: Roots, resource: str) -> Path:
    return roots.device_plugins / LOCK_FOLDER / f"{resource.replace('/', '%2F')}.lock"


def test_a_free_resource_is_locked_and_the_file_names_the_process(roots: Roots) -> None:
    with ResourceLocks(roots, Bus(), Path("/etc/pcidp/config.json")) as locks:
        assert locks.want({A}) == {A}
        assert lock_file(roots, A).read_text() == (
            f"{A}\npid {os.getpid()} on {socket.gethostname()}, "
            "configuration /etc/pcidp/config.json\n"
        )
        assert locks.waiting == {}
    assert not lock_file(roots, A).exists()


async def test_two_processes_with_disjoint_resources_both_get_their_locks(roots: Roots) -> None:
    async with holder(roots, A):
        with ResourceLocks(roots, Bus()) as locks:
            assert locks.want({B}) == {B}
            assert locks.waiting == {}
            assert locks.others() == {A}


async def test_only_the_shared_resource_waits_and_the_holder_is_named(
    roots: Roots,
) -> None:
    bus = Bus()
    async with holder(roots, A, B) as process:
        with hearing() as heard, ResourceLocks(roots, bus) as locks:
            assert locks.want({A, C}) == {C}
            name = f"pid {process.pid} on {socket.gethostname()}, configuration /etc/first.json"
            assert locks.waiting == {A: name}
            async with running(locks, roots, bus):
                said = await heard.until("lock.waiting")
    assert said == {"resources": (A,), "holder": name}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None], ids=str)
async def test_a_resource_is_taken_over_when_its_holder_ends_in_any_way(
    roots: Roots, end: signal.Signals | None
) -> None:
    bus = Bus()
    async with holder(roots, A, B) as process:
        with hearing() as heard, ResourceLocks(roots, bus) as locks:
            assert locks.want({A, B}) == frozenset()
            async with running(locks, roots, bus):
                if end is None:
                    assert process.stdin is not None
                    process.stdin.close()
                else:
                    process.send_signal(end)
                await until(bus, lambda: locks.want({A, B}) == {A, B})
            assert f"pid {os.getpid()} " in lock_file(roots, A).read_text()
            await heard.until("lock.acquired")


async def test_a_resource_that_a_running_holder_releases_is_taken_over(roots: Roots) -> None:
    first_bus, bus = Bus(), Bus()
    with ResourceLocks(roots, first_bus) as first, ResourceLocks(roots, bus) as second:
        first.want({A, B})
        assert second.want({A}) == frozenset()
        async with running(second, roots, bus):
            first.want({B})
            assert second.waiting.keys() == {A}  # its server has not ended yet
            first_bus.publish(ServerEnded(A))
            await until(bus, lambda: second.want({A}) == {A})
        assert first.want({A, B}) == {B}


async def test_the_lock_on_a_file_that_was_replaced_does_not_count(roots: Roots) -> None:
    """An agent that waited for the old file must not serve what the owner of the new one serves."""
    first_bus, bus = Bus(), Bus()
    with (
        ResourceLocks(roots, first_bus, Path("/etc/first.json")) as first,
        ResourceLocks(roots, bus) as second,
        ResourceLocks(roots, Bus(), Path("/etc/third.json")) as third,
    ):
        assert first.want({A}) == {A}
        assert second.want({A}) == frozenset()
        lock_file(roots, A).unlink()
        assert third.want({A}) == {A}
        with hearing() as heard:
            first.want(())
            first_bus.publish(ServerEnded(A))
            async with running(second, roots, bus):
                said = await heard.until("lock.waiting")
        assert str(said["holder"]).endswith("/etc/third.json")
        assert second.want({A}) == frozenset()


def test_a_lock_that_is_needed_again_before_its_server_ended_is_kept(roots: Roots) -> None:
    bus = Bus()
    with ResourceLocks(roots, bus) as locks, ResourceLocks(roots, Bus()) as second:
        locks.want({A})
        locks.want(())
        assert locks.want({A}) == {A}
        bus.publish(ServerEnded(A))
        assert second.want({A}) == frozenset()


def test_the_agent_does_not_wait_for_a_resource_that_it_no_longer_needs(roots: Roots) -> None:
    with ResourceLocks(roots, Bus()) as first, ResourceLocks(roots, Bus()) as second:
        first.want({A})
        second.want({A})
        assert second.want(()) == frozenset()
        assert second.waiting == {}
    with ResourceLocks(roots, Bus()) as third:
        assert third.want({A}) == {A}


def test_resources_whose_names_differ_only_in_unusual_characters_have_locks_of_their_own(
    roots: Roots,
) -> None:
    names = {"a/b_c", "a_b/c", "a/b%5Fc", "a/b\u00e9", "a.b/c", ".a/b"}
    with ResourceLocks(roots, Bus()) as locks, ResourceLocks(roots, Bus()) as second:
        assert locks.want(names) == names
        assert second.others() == names


def test_a_resource_whose_name_is_longer_than_a_file_name_may_be_has_a_lock(roots: Roots) -> None:
    long = [f"{'a' * 250}.com/{end}" for end in "xy"]
    with ResourceLocks(roots, Bus()) as locks, ResourceLocks(roots, Bus()) as second:
        assert locks.want(long[:1]) == {long[0]}
        assert second.want(long) == {long[1]}
        assert second.others() == {long[0]}


def test_files_of_a_killed_process_belong_to_nobody(roots: Roots) -> None:
    with ResourceLocks(roots, Bus()) as locks:
        locks.want({A})
        left = lock_file(roots, A).read_bytes()
    lock_file(roots, A).write_bytes(left)
    with ResourceLocks(roots, Bus()) as locks:
        assert locks.others() == frozenset()
        assert locks.want({A}) == {A}


def test_kubelets_cleaning_at_its_start_leaves_the_locks_in_place(roots: Roots) -> None:
    with ResourceLocks(roots, Bus()) as locks:
        locks.want({A})
        for path in roots.device_plugins.iterdir():
            if not path.is_dir():
                path.unlink()
        assert lock_file(roots, A).exists()


def test_a_replaced_folder_is_locked_again(roots: Roots) -> None:
    bus = Bus()
    with ResourceLocks(roots, bus) as locks, ResourceLocks(roots, Bus()) as second:
        locks.want({A})
        shutil.rmtree(roots.device_plugins)
        roots.device_plugins.mkdir()
        bus.publish(PluginFoldersChanged())
        assert locks.want({A}) == {A}
        assert second.want({A}) == frozenset()


async def test_a_waiting_process_follows_its_holder_into_a_replaced_folder(roots: Roots) -> None:
    """It must not take the new file before the holder, which still serves, could."""
    first_bus, bus = Bus(), Bus()
    with ResourceLocks(roots, bus) as second:
        with ResourceLocks(roots, first_bus) as first:
            first.want({A})
            second.want({A})
            async with running(second, roots, bus):
                shutil.rmtree(roots.device_plugins)
                roots.device_plugins.mkdir()
                bus.publish(PluginFoldersChanged())
                await asyncio.sleep(0)
                first_bus.publish(PluginFoldersChanged())
                assert first.want({A}) == {A}
        async with running(second, roots, bus):
            await until(bus, lambda: second.want({A}) == {A})


def test_the_locks_move_to_the_folder_that_the_next_agent_would_try_first(roots: Roots) -> None:
    bus = Bus()
    roots.plugins_registry.mkdir()
    with ResourceLocks(roots, bus) as locks, ResourceLocks(roots, Bus()) as second:
        locks.want({A})
        shutil.rmtree(roots.device_plugins)
        bus.publish(PluginFoldersChanged())
        assert second.want({A}) == frozenset()
        second.want(())
        roots.device_plugins.mkdir()
        bus.publish(PluginFoldersChanged())
        assert second.want({A}) == frozenset()


def test_a_resource_that_another_process_locked_first_in_a_replaced_folder_is_left_to_it(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    changes: list[object] = []
    bus.on(ResourceLocksChanged, changes.append)
    with ResourceLocks(roots, bus) as locks:
        locks.want({A, B})
        shutil.rmtree(roots.device_plugins)
        roots.device_plugins.mkdir()
        with ResourceLocks(roots, Bus()) as second:
            second.want({A})
            bus.publish(PluginFoldersChanged())
            assert locks.want({A, B}) == {B}
            assert len(changes) == 1
        assert messages(caplog) == ["lock.lost"]


async def test_a_lock_that_was_lost_in_a_replaced_folder_is_taken_once_it_is_free(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Bus()
    with ResourceLocks(roots, bus) as locks, monkeypatch.context() as patch:
        locks.want({A})
        shutil.rmtree(roots.device_plugins)
        roots.device_plugins.mkdir()
        with ResourceLocks(roots, Bus()) as second:
            second.want({A})
            bus.publish(PluginFoldersChanged())
            assert locks.waiting.keys() == {A}
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(locks.run())
            await until(bus, lambda: not locks.waiting)
            checks: list[object] = []
            patch.setattr(locks, "_check_folders", lambda: checks.append(None))
            bus.publish(LockFilesChanged())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not checks, "nothing is tried while no lock is missing"
            running.cancel()


async def test_without_kubelets_folders_resources_are_served_and_locked_when_they_come(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(roots.kubelet)
    bus = Bus()
    with ResourceLocks(roots, bus) as locks:
        assert locks.want({A}) == {A}
        assert messages(caplog) == ["lock.unavailable"]
        assert locks.waiting == {}
        roots.plugins_registry.mkdir(parents=True)
        bus.publish(PluginFoldersChanged())
        assert (roots.plugins_registry / LOCK_FOLDER / "intel.com%2Fa.lock").read_text()


def test_a_folder_that_cannot_be_written_is_one_warning(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    (roots.device_plugins / LOCK_FOLDER).touch()
    with ResourceLocks(roots, Bus()) as locks:
        assert locks.want({A, B}) == {A, B}
        assert messages(caplog) == ["lock.unavailable"]


@pytest.mark.parametrize("call", ["listdir", "mkdir"])
async def test_after_kubelets_folders_hung_the_resources_are_locked(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    answers, bus, original = threading.Event(), Bus(), getattr(os, call)

    def hang(*args: object) -> object:
        answers.wait(20)
        return original(*args)

    with ResourceLocks(roots, bus) as locks:
        monkeypatch.setattr(os, call, hang)
        assert locks.want({A, B}) == {A, B}
        assert not lock_file(roots, A).exists()
        answered = asyncio.Event()
        leave = blocking.on_change(lambda: None if blocking.hanging() else answered.set())
        answers.set()
        async with asyncio.timeout(20):
            while blocking.hanging():
                await answered.wait()
        leave()
        bus.publish(PluginFoldersChanged())
        assert lock_file(roots, A).exists()


def test_a_locked_file_without_content_is_known_by_its_name(roots: Roots) -> None:
    file = lock_file(roots, "intel.com/a_b")
    file.parent.mkdir(parents=True)
    file.touch()
    with ResourceLocks(roots, Bus()) as locks, file.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert locks.others() == {"intel.com/a_b"}


def test_lock_files_are_for_this_user_only_and_links_are_not_followed(
    roots: Roots, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    with ResourceLocks(roots, Bus()) as locks:
        locks.want({A})
        lock_file(roots, B).symlink_to(elsewhere)
        assert locks.want({A, B}) == {A, B}
        assert stat.S_IMODE(lock_file(roots, A).stat().st_mode) == 0o600
        assert stat.S_IMODE(lock_file(roots, A).parent.stat().st_mode) == 0o700
    assert elsewhere.read_text() == "untouched"


def test_a_linked_lock_folder_is_not_followed(roots: Roots, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (roots.device_plugins / LOCK_FOLDER).symlink_to(elsewhere)
    with ResourceLocks(roots, Bus()) as locks:
        assert locks.want({A}) == {A}
        assert list(elsewhere.iterdir()) == []


async def test_a_lock_that_stays_with_its_holder_is_not_logged_as_acquired(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bus = Bus()
    with ResourceLocks(roots, Bus()) as first, ResourceLocks(roots, bus) as second:
        assert first.want({A}) == {A}
        assert second.want({A}) == frozenset()
        with bus.subscribe(ResourceLocksChanged) as changed, suppress(TimeoutError):
            async with running(second, roots, bus), asyncio.timeout(0.3):
                await changed.take()
        assert second.want({A}) == frozenset()
    assert "lock.acquired" not in messages(caplog)


def test_a_holder_whose_lock_file_cannot_be_read_has_no_name(roots: Roots) -> None:
    lock_file(roots, A).parent.mkdir()
    os.mkfifo(lock_file(roots, A))
    with ResourceLocks(roots, Bus()) as first, ResourceLocks(roots, Bus()) as second:
        assert first.want({A}) == {A}
        assert second.want({A}) == frozenset()
        assert second.waiting == {A: "an agent that did not write its name"}


def test_a_lost_folder_removes_no_resource(roots: Roots) -> None:
    bus = Bus()
    changes: list[object] = []
    bus.on(ResourceLocksChanged, changes.append)
    with ResourceLocks(roots, bus) as locks:
        locks.want({A})
        shutil.rmtree(roots.device_plugins)
        bus.publish(PluginFoldersChanged())
        assert locks.want({A}) == {A}
    assert changes == []


@pytest.mark.parametrize("is_ending", [True, False])
async def test_a_lock_is_released_at_once_while_kubelets_folders_hang(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, *, is_ending: bool
) -> None:
    answers, bus, original = threading.Event(), Bus(), os.listdir

    def hang(*args: Path) -> list[str]:
        answers.wait(20)
        return original(*args)

    with ResourceLocks(roots, bus) as locks:
        locks.want({A})
        file = lock_file(roots, A)
        if not is_ending:
            locks.want(())
        monkeypatch.setattr(os, "listdir", hang)
        monkeypatch.setattr(Path, "unlink", lambda _: pytest.fail("removed on the loop"))
        if not is_ending:
            bus.publish(ServerEnded(A))
            assert locks.waiting == {}
    answers.set()
    monkeypatch.undo()
    with ResourceLocks(roots, Bus()) as next_one:
        assert file.exists()
        assert next_one.want({A}) == {A}

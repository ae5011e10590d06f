from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys

import pytest

from agent.bus import Bus
from agent.kubelet.hints import PluginFoldersChanged
from agent.kubelet.node_lock import NodeLock
from agent.roots import Roots

HOLDER = """
import asyncio, sys
from pathlib import Path
from agent.bus import Bus
from agent.kubelet.node_lock import NodeLock
from agent.roots import Roots

async def hold():
    async with NodeLock(Roots(Path(sys.argv[1])), Bus()):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def start_holder(roots: Roots) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(roots.host)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    return process


async def until_waiting(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    async with asyncio.timeout(10):
        while True:
            for record in caplog.records:
                if record.message == "lock.waiting":
                    return record
            await asyncio.sleep(0)


async def the_next_one_waits(roots: Roots, caplog: pytest.LogCaptureFixture) -> None:
    """One more agent comes, does not get the lock, and goes again."""
    entering = asyncio.create_task(NodeLock(roots, Bus()).__aenter__())
    await until_waiting(caplog)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering


async def test_the_first_agent_holds_the_node_and_signs_with_its_name(roots: Roots) -> None:
    async with NodeLock(roots, Bus()):
        text = (roots.device_plugins / ".sriov-node-agent/lock").read_text()
        assert text == f"{socket.gethostname()} pid {os.getpid()}\n"
    assert not (roots.device_plugins / ".sriov-node-agent/lock").read_text()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_the_second_names_the_holder_and_takes_over_when_it_dies(
    roots: Roots, caplog: pytest.LogCaptureFixture, end: signal.Signals
) -> None:
    holder = await start_holder(roots)
    second = NodeLock(roots, Bus())
    entering = asyncio.create_task(second.__aenter__())
    record = await until_waiting(caplog)
    assert record.fields["holder"].endswith(f"pid {holder.pid}")  # type: ignore[attr-defined]
    assert not entering.done()
    holder.send_signal(end)
    async with asyncio.timeout(10):
        await entering
        await holder.wait()
    assert f"pid {os.getpid()}" in (roots.device_plugins / ".sriov-node-agent/lock").read_text()
    await second.__aexit__(None, None, None)


async def test_a_cancelled_wait_leaves_the_lock_to_others(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    holder = await start_holder(roots)
    await the_next_one_waits(roots, caplog)
    holder.kill()
    await holder.wait()
    async with asyncio.timeout(10), NodeLock(roots, Bus()):
        pass


async def test_kubelets_sweep_leaves_the_lock_in_place(roots: Roots) -> None:
    async with NodeLock(roots, Bus()):
        for path in roots.device_plugins.iterdir():
            if not path.is_dir():
                path.unlink()
        assert (roots.device_plugins / ".sriov-node-agent/lock").exists()


async def test_a_folder_made_anew_is_locked_anew(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    async with NodeLock(roots, bus):
        shutil.rmtree(roots.device_plugins)
        roots.device_plugins.mkdir()
        bus.publish(PluginFoldersChanged())
        await the_next_one_waits(roots, caplog)


async def test_the_lock_follows_to_the_folder_that_the_next_agent_would_ask_first(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    roots.plugins_registry.mkdir()
    async with NodeLock(roots, bus):
        shutil.rmtree(roots.device_plugins)
        bus.publish(PluginFoldersChanged())
        roots.device_plugins.mkdir()
        bus.publish(PluginFoldersChanged())
        await the_next_one_waits(roots, caplog)


async def test_a_folder_made_anew_and_locked_by_another_is_an_error_in_the_log(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    async with NodeLock(roots, bus):
        shutil.rmtree(roots.device_plugins)
        roots.device_plugins.mkdir()
        async with NodeLock(roots, Bus()):
            bus.publish(PluginFoldersChanged())
        assert [r.message for r in caplog.records] == ["lock.lost"]


async def test_without_kubelets_folders_the_agent_goes_on_and_locks_when_they_come(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(roots.kubelet)
    bus = Bus()
    async with NodeLock(roots, bus):
        assert [r.message for r in caplog.records] == ["lock.unavailable"]
        roots.plugins_registry.mkdir(parents=True)
        bus.publish(PluginFoldersChanged())
        assert (roots.plugins_registry / ".sriov-node-agent/lock").read_text()


async def test_a_folder_that_cannot_be_written_is_a_warning(
    roots: Roots, caplog: pytest.LogCaptureFixture
) -> None:
    (roots.device_plugins / ".sriov-node-agent").touch()
    async with NodeLock(roots, Bus()):
        assert [r.message for r in caplog.records] == ["lock.unavailable"]

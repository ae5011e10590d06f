"""The state of the agent before it is built, while it serves, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.config.watcher import ConfigChanged
from agent.daemon import Startup
from agent.errors import ConfigError
from agent.model.events import SnapshotTaken
from agent.options import RunOptions
from agent.roots import Roots
from agent.sample.kubelet import DemoKubelet
from agent.sample.node import DPDK_POOL, KERNEL_POOL, SampleNode, lay_out
from agent.status.state import AgentState
from tests.support.kubelet import PATIENCE_S


@pytest.fixture
def sample() -> Iterator[SampleNode]:
    """A sample node; pytest's own folders have names too long for a socket."""
    with TemporaryDirectory(prefix="node-") as folder:
        yield lay_out(Path(folder))


def startup_of(roots: Roots, config_file: Path, stop: asyncio.Event) -> Startup:
    return Startup(RunOptions(roots, config_file, "example.com", netlink=False), stop)


async def lists_of_both_pools(kubelet: DemoKubelet) -> None:
    async with asyncio.timeout(PATIENCE_S), kubelet.changed:
        await kubelet.changed.wait_for(lambda: set(kubelet.lists) == {KERNEL_POOL, DPDK_POOL})


async def states_of_a_life(sample: SampleNode) -> tuple[AgentState, AgentState, AgentState]:
    """Before the configuration is read, while kubelet has the lists, and after the end."""
    stop = asyncio.Event()
    startup = startup_of(sample.host.roots, sample.config_file, stop)
    with startup.endpoints:
        before = startup.state()
        async with DemoKubelet(sample.host.roots) as kubelet:
            running = asyncio.create_task(startup.run())
            await lists_of_both_pools(kubelet)
            serving = startup.state()
            stop.set()
            await running
    return before, serving, startup.state()


def test_the_state_is_complete_before_the_agent_is_built_while_it_serves_and_after_its_end(
    sample: SampleNode,
) -> None:
    before, serving, after = asyncio.run(states_of_a_life(sample))
    assert (before.config.in_force, before.serving, before.servers) == (False, False, ())
    assert (before.pools.pools, before.netlink, before.stopping) == ((), "off", False)
    assert serving.config.in_force
    assert {s.resource for s in serving.servers if s.stream_live} == {KERNEL_POOL, DPDK_POOL}
    assert serving.pools_health.keys() == {KERNEL_POOL, DPDK_POOL}
    assert serving.scan.number >= 1
    assert after.stopping
    assert after.pools.by_resource.keys() == {KERNEL_POOL, DPDK_POOL}


def test_the_first_configuration_and_the_first_scan_are_published_like_later_ones(
    sample: SampleNode,
) -> None:
    async def first_events() -> list[str]:
        stop = asyncio.Event()
        startup = startup_of(sample.host.roots, sample.config_file, stop)
        published: list[str] = []
        for event in (ConfigChanged, SnapshotTaken):
            startup.bus.on(event, lambda e: published.append(type(e).__name__))
        with startup.endpoints:
            async with DemoKubelet(sample.host.roots) as kubelet:
                running = asyncio.create_task(startup.run())
                await lists_of_both_pools(kubelet)
                stop.set()
                await running
        return published

    assert asyncio.run(first_events())[:2] == ["ConfigChanged", "SnapshotTaken"]


def test_a_configuration_that_cannot_be_used_ends_the_start(sample: SampleNode) -> None:
    sample.config_file.write_text("{")

    async def start() -> None:
        startup = startup_of(sample.host.roots, sample.config_file, asyncio.Event())
        with startup.endpoints:
            await startup.run()

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(start())
    assert raised.group_contains(ConfigError)

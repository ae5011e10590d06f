"""``demo``: runs the agent on a sample node with a simulated kubelet, step by step."""

from __future__ import annotations

import asyncio
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from agent import logs
from agent.cli.arguments import DEFAULT_PREFIX
from agent.daemon import run_agent
from agent.errors import AgentError
from agent.options import RunOptions
from agent.sample.kubelet import DemoKubelet, Lists
from agent.sample.node import DPDK_POOL, KERNEL_POOL, PORT_0, SampleNode, lay_out

PATIENCE_S = 10.0
"""Limit of each step (s); all steps together take a few seconds."""
PAUSE_S = 0.4
"""Pause between two steps (s), for the reader."""


class DemoFailedError(AgentError):
    """A step of the demo did not finish in time."""


def command(_: Namespace) -> int:
    """Run the demo; raises DemoFailedError if a step does not finish in time."""
    logs.configure(logs.parse_level("warning"), "text")
    with tempfile.TemporaryDirectory(prefix="sriov-agent-demo-") as folder:
        asyncio.run(_demo(lay_out(Path(folder))))
    return 0


async def _demo(node: SampleNode) -> None:
    async with AsyncExitStack() as stack:
        kubelet = await stack.enter_async_context(DemoKubelet(node.host.roots))
        stop = asyncio.Event()
        options = RunOptions(
            roots=node.host.roots,
            config_file=node.config_file,
            resource_prefix=DEFAULT_PREFIX,
            netlink=False,
        )
        agent = asyncio.create_task(run_agent(options, stop))
        steps = asyncio.create_task(_Steps(node, kubelet).run())
        await asyncio.wait({agent, steps}, return_when=asyncio.FIRST_COMPLETED)
        if not steps.done():
            steps.cancel()
        else:
            steps.result()
        await _stop(node, agent, stop)


async def _stop(node: SampleNode, agent: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Stop the agent, and show which files remain."""
    _step("The agent stops")
    began = asyncio.get_running_loop().time()
    stop.set()
    await agent
    took_ms = (asyncio.get_running_loop().time() - began) * 1000
    sockets = sorted(p.name for p in node.host.roots.device_plugins.glob("example.com*"))
    kept = sorted(p.name for p in node.host.roots.device_info.glob("*"))
    _fact(f"stopped in {took_ms:.0f} ms; sockets left: {', '.join(sockets) or 'none'}")
    _fact(f"kept for the running pod: {', '.join(kept)}")


class _Steps:
    """The steps of the demo; each waits for its result."""

    def __init__(self, node: SampleNode, kubelet: DemoKubelet) -> None:
        self._node = node
        self._host = node.host
        self._kubelet = kubelet

    async def run(self) -> None:
        """All steps in order."""
        for step in (
            self._registers,
            self._allocates,
            self._cable_is_pulled,
            self._cable_is_back,
            self._vfs_appear,
            self._config_is_edited,
        ):
            await step()
            await asyncio.sleep(PAUSE_S)

    async def _registers(self) -> None:
        _step("A node with an uplink (eno1) and a two-port NIC with 4 VFs on each port starts")
        await self._until(lambda lists: set(lists) == {KERNEL_POOL, DPDK_POOL})
        _fact(f"kubelet has {self._kubelet.registrations} resources registered")
        self._show()
        _fact("eno1 is in no pool: it carries the default route")

    async def _allocates(self) -> None:
        _step(f"A pod requests one {DPDK_POOL}")
        answer = await self._kubelet.allocate(DPDK_POOL, 1)
        for name, value in sorted(answer.envs.items()):
            _fact(f"env {name}={value}")
        for node in answer.devices:
            _fact(f"device node {node.host_path} ({node.permissions})")

    async def _cable_is_pulled(self) -> None:
        _step("The cable of ens1f0 is pulled")
        self._host.set_carrier("ens1f0", up=False)
        await self._until(lambda lists: _healthy(lists, KERNEL_POOL) == 0)
        self._show(KERNEL_POOL)

    async def _cable_is_back(self) -> None:
        _step("The cable is back; VFs become Healthy after 1 s")
        self._host.set_carrier("ens1f0", up=True)
        await self._until(lambda lists: _healthy(lists, KERNEL_POOL) == len(lists[KERNEL_POOL]))
        self._show(KERNEL_POOL)

    async def _vfs_appear(self) -> None:
        _step("Two VFs are added on ens1f0 while the agent runs")
        self._host.add_vfs(PORT_0, 6)
        await self._until(lambda lists: len(lists[KERNEL_POOL]) == 6)
        self._show(KERNEL_POOL)

    async def _config_is_edited(self) -> None:
        _step("The configuration is edited: all four VFs of ens1f1 go to DPDK")
        before = self._kubelet.registrations
        self._node.write_config(indexes="0-3")
        await self._until(lambda lists: len(lists[DPDK_POOL]) == 4)
        self._show(DPDK_POOL)
        _fact(f"registrations since: {self._kubelet.registrations - before}")

    async def _until(self, condition: Callable[[Lists], bool]) -> None:
        """Wait until kubelet's lists match; raises DemoFailedError after PATIENCE_S."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(PATIENCE_S), self._kubelet.changed:
                await self._kubelet.changed.wait_for(lambda: condition(self._kubelet.lists))
        except TimeoutError:
            raise DemoFailedError(f"kubelet's lists stayed {self._kubelet.lists}") from None
        took_ms = (asyncio.get_running_loop().time() - began) * 1000
        _fact(f"kubelet has the list after {took_ms:.0f} ms")

    def _show(self, *resources: str) -> None:
        for resource in resources or sorted(self._kubelet.lists):
            devices = self._kubelet.lists[resource]
            counted = Counter(devices.values())
            health = ", ".join(f"{counted[h]} {h}" for h in sorted(counted))
            _fact(f"{resource}: {health} ({', '.join(devices)})")


def _healthy(lists: Lists, resource: str) -> int:
    return sum(health == "Healthy" for health in lists.get(resource, {}).values())


def _step(text: str) -> None:
    print(f"\n* {text}", flush=True)


def _fact(text: str) -> None:
    print(f"    {text}", flush=True)

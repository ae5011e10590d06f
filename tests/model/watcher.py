"""Kubelet's plugin watcher: it looks each second, shakes hands, and backs off for each path."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.rpc import pluginregistration as api
from tests.model.ends import LOST, Line
from tests.model.kubelet import Kubelet

LOOK_S = 1.0
VERDICT_S = 10.0
"""How long kubelet itself lets a registration take before it gives up."""


async def watch(kubelet: Kubelet) -> None:
    """Follow plugins_registry as long as kubelet does anything."""
    known: dict[Path, str] = {}
    due: dict[Path, tuple[float, float]] = {}
    loop = asyncio.get_running_loop()
    while kubelet.is_at_work:
        found = _visible_sockets(kubelet.roots.plugins_registry)
        for path in known.keys() - found:
            _deregister(kubelet, known.pop(path), path)
        for path in sorted(found - known.keys()):
            after, delay_s = due.get(path, (0.0, 0.5))
            if loop.time() < after:
                continue
            resource = await _shake_hands(kubelet, path)
            if resource is None:
                due[path] = (loop.time() + delay_s, min(delay_s * 2, 122.0))
            else:
                known[path] = resource
        await asyncio.sleep(LOOK_S)


async def _shake_hands(kubelet: Kubelet, path: Path) -> str | None:
    line = Line(path)
    stub = api.RegistrationStub(line)
    try:
        info = await stub.get_info(api.InfoRequest(), timeout=1.0)
        async with asyncio.timeout(VERDICT_S):
            await kubelet.reach("asked")
            is_refused = kubelet.refuses()
            if not is_refused:
                await kubelet.connect(info.name, Path(info.endpoint or path))
        error = "refused by the test" if is_refused else ""
        verdict = api.RegistrationStatus(plugin_registered=not is_refused, error=error)
        await stub.notify_registration_status(verdict, timeout=5.0)
    except LOST:
        return None
    finally:
        line.close()
    return None if is_refused else info.name


def _deregister(kubelet: Kubelet, resource: str, path: Path) -> None:
    client = kubelet.clients.get(resource)
    if client is not None and client.path == path:
        del kubelet.clients[resource]
        client.hang_up()


def _visible_sockets(folder: Path) -> set[Path]:
    try:
        return {p for p in folder.iterdir() if p.is_socket() and not p.name.startswith(".")}
    except OSError:
        return set()

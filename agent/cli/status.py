"""``status``: the state of the running agent, from its socket."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator

from rich.text import Text

from agent.admin.client import ask_status
from agent.cli.console import BAD, DIM, GOOD, STRONG, WARN, Screen, ago, health, styled
from agent.cli.inputs import roots_of
from agent.rpc.agent import v1
from agent.status.json_mapping import text

EXIT_NOT_READY = 1


def command(arguments: Namespace) -> int:
    """Print the status; 0 if the agent is ready, else 1. Raises NoAgentError."""
    devices = arguments.devices or arguments.output == "json"
    reply = asyncio.run(ask_status(roots_of(arguments).run, devices=devices))
    if arguments.output == "json":
        sys.stdout.write(text(reply))
    else:
        show(reply, Screen(), devices=arguments.devices)
    return 0 if reply.ready else EXIT_NOT_READY


def show(reply: v1.StatusReply, screen: Screen, *, devices: bool) -> None:
    """Tables of pools and PFs, and of devices if asked for, below a few lines."""
    _head(reply, screen)
    if reply.pools:
        screen.line()
        screen.table(_POOL_HEADERS, (_pool(pool, reply.now) for pool in reply.pools))
        for pool in reply.pools:
            for why in pool.why_empty:
                screen.line(f"{pool.resource} is empty: {why}", WARN)
            for note in pool.notes:
                screen.line(f"{pool.resource}: {note}", WARN)
    for overlap in reply.overlaps:
        text = f"devices of {overlap.winner} that {overlap.loser} matches too: {overlap.devices}"
        screen.line(text, WARN)
    if reply.pfs:
        screen.line()
        screen.table(_PF_HEADERS, map(_pf, reply.pfs))
    if devices:
        screen.line()
        screen.table(_DEVICE_HEADERS, (_device(device, reply.now) for device in reply.devices))


def _head(reply: v1.StatusReply, screen: Screen) -> None:
    node = f" on {reply.node}" if reply.node else ""
    ready = "ready" if reply.ready else "not ready"
    since = ago(reply.started_at, reply.now)
    words = f"sriov-agent {reply.version}, process {reply.pid}{node}, up {since}: {ready}"
    screen.line(words, GOOD if reply.ready else BAD)
    for sentence in reply.missing:
        screen.line(f"missing: {sentence}", BAD)
    for sentence in reply.details:
        screen.line(f"detail: {sentence}", WARN)
    if config := reply.config:
        state = "loaded" if config.in_force else "not loaded"
        screen.line(f"configuration {config.path}: {state}, {config.pools} pools", DIM)
    if scan := reply.scan:
        screen.line(f"last scan: {scan.functions} functions in {scan.took_ms:g} ms", DIM)


_POOL_HEADERS = ("POOL", "DEVICES", "HEALTHY", "ALLOCATED", "KUBELET", "SINCE", "CAUSES")


def _pool(pool: v1.Pool, now: float) -> list[str | Text]:
    server = pool.server
    causes = ", ".join(f"{c.cause} ({c.devices})" for c in pool.causes)
    well = GOOD if pool.devices and pool.healthy == pool.devices else BAD if pool.devices else DIM
    return [
        styled(pool.resource, STRONG),
        str(pool.devices),
        styled(str(pool.healthy), well),
        str(pool.held),
        _kubelet(server),
        ago(server.since, now) if server else "-",
        causes or (server.last_error if server else "") or "-",
    ]


def _kubelet(server: v1.Server | None) -> Text:
    if server is None:
        return styled("not served", DIM)
    if server.stream_live:
        return styled(f"connected ({server.registered_by})", GOOD)
    return styled("registered, no stream" if server.registered_by else "not registered", BAD)


_PF_HEADERS = ("PF", "ADDRESS", "LINK", "VFS", "NUMA", "DRIVER", "DEVICE", "IN USE BY THE HOST")


def _pf(pf: v1.Pf) -> list[str | Text]:
    link = f"up {pf.speed_mbps // 1000}G" if pf.link == "up" and pf.speed_mbps else pf.link
    colour = {"up": GOOD, "down": BAD, "admin down": BAD}.get(pf.link, DIM)
    return [
        styled(pf.name or "-", STRONG),
        pf.address,
        styled(link, colour),
        f"{pf.num_vfs}/{pf.total_vfs}" if pf.total_vfs else "-",
        "-" if pf.numa_node is None else str(pf.numa_node),
        pf.driver or "unbound",
        pf.title or f"{pf.vendor}:{pf.device}",
        pf.in_use or "-",
    ]


_DEVICE_HEADERS = ("DEVICE", "ROLE", "PF", "POOL", "HEALTH", "SINCE", "POD")


def _device(device: v1.Device, now: float) -> list[str | Text]:
    pf = device.pf if device.pf != device.id else ""
    words = " ".join(_health_words(device))
    return [
        device.id,
        device.role,
        (pf if device.index is None else f"{pf}#{device.index}") or "-",
        device.pool or styled(device.refusal or "-", DIM),
        Text(words, style=health(device.health).style),
        ago(device.since, now),
        holder_text(device.holder) or ("none (given last)" if device.given_last else "-"),
    ]


def _health_words(device: v1.Device) -> Iterator[str]:
    yield device.health or "-"
    if device.cause:
        yield f"({device.cause})"


def holder_text(holder: v1.Holder | None) -> str:
    """The pod that has a device; empty = none."""
    if holder is None:
        return ""
    if not holder.pod:
        return f"pod with UID {holder.uid}" if holder.uid else "a pod that is being started"
    return f"{holder.namespace}/{holder.pod} ({holder.container})"

"""``discover``: scan once and print devices with facts, and their pool or why they have none."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from typing import TextIO

from rich.text import Text

from agent.change_log import funnel_text
from agent.cli.arguments import DEFAULT_CONFIG_FILE
from agent.cli.console import DIM, GOOD, STRONG, WARN, Screen, styled
from agent.cli.discover_document import document
from agent.cli.inputs import config_or_none, roots_of, wants_netlink
from agent.discovery.scan import scan
from agent.host.pci_ids import PciIds
from agent.model.device import Device
from agent.model.needs import ALTNAMES, DDP, ENABLE_RDMA
from agent.model.snapshot import Snapshot
from agent.pools.advice import advise
from agent.pools.assign import assign
from agent.pools.needs import needs_of
from agent.pools.pool import Pools
from agent.pools.reasons import reason

ALL_NEEDS = frozenset({DDP, ENABLE_RDMA, ALTNAMES})
"""Facts that need requests to the kernel."""
_HEADER = ("DEVICE", "ROLE", "VENDOR", "DRIVER", "NUMA", "PF", "NETDEV", "POOL OR REASON")


def command(arguments: Namespace) -> int:
    """Scan, assign, print; 2 if the configuration has errors, else 0, also on an empty host.

    Raises ConfigError or UsageError.
    """
    roots = roots_of(arguments)
    config, loaded = config_or_none(arguments, DEFAULT_CONFIG_FILE)
    for line in loaded.lines() if loaded else ():
        print(line, file=sys.stderr)
    netlink = wants_netlink(arguments, roots)
    snapshot = scan(roots, netlink=netlink, needs=ALL_NEEDS | needs_of(config))
    pools = assign(snapshot, config)
    _print(pools, names_of(snapshot, PciIds(roots)), arguments.output, sys.stdout)
    return loaded.exit_code if loaded else 0


def names_of(snapshot: Snapshot, ids: PciIds) -> Mapping[str, str]:
    """``vendor:device`` -> product name, sorted, for those in the pci.ids database."""
    hardware = sorted({(d.vendor, d.device) for d in snapshot.devices})
    ids.load(hardware)
    return {f"{v}:{d}": title for v, d in hardware if (title := ids.title(v, d))}


def _print(pools: Pools, names: Mapping[str, str], output: str, out: TextIO) -> None:
    if output == "json":
        json.dump({**document(pools), "names": names}, out, indent=2)
        out.write("\n")
        return
    screen = Screen(out)
    if not pools.snapshot.devices:
        screen.line("No network function or accelerator was found.")
    else:
        screen.table(_HEADER, (_row(d, pools) for d in pools.snapshot.devices))
    if names:
        screen.line()
        screen.table(("HARDWARE", "NAME"), names.items())
    _print_pools(pools, screen)
    _print_skipped(pools.snapshot, screen)


def _row(device: Device, pools: Pools) -> tuple[str | Text, ...]:
    why = reason(device, pools)
    pf = device.pf_name or device.pf_address or "-"
    return (
        device.id,
        _role(device),
        f"{device.vendor}:{device.device}",
        device.driver or "unbound",
        "-" if device.numa_node is None else str(device.numa_node),
        pf if device.index is None else f"{pf}#{device.index}",
        ",".join(n.name for n in device.netdevs) or "-",
        styled(why.resource, GOOD) if why.resource else styled(why.text, DIM),
    )


def _role(device: Device) -> str:
    return f"{device.role} {device.num_vfs}/{device.total_vfs}" if device.total_vfs else device.role


def _print_pools(pools: Pools, screen: Screen) -> None:
    for pool in pools.pools:
        advice = advise(pool, pools)
        screen.line()
        screen.line(f"{pool.resource}: {len(pool.members)} devices", STRONG)
        screen.line(f"  {funnel_text(pool)}")
        for why in advice.why_empty:
            screen.line(f"  why: {why}", WARN)
        for note in advice.notes:
            screen.line(f"  note: {note}", WARN)
    for overlap in pools.overlaps:
        count = len(overlap.device_ids)
        screen.line()
        text = f"devices of {overlap.winner} that {overlap.loser} matches too: {count}"
        screen.line(text, WARN)


def _print_skipped(snapshot: Snapshot, screen: Screen) -> None:
    skipped = Counter(dict(snapshot.skipped_classes))
    if skipped:
        classes = ", ".join(f"{name} x{count}" for name, count in sorted(skipped.items()))
        screen.line()
        screen.line(f"Ignored functions of other PCI classes: {classes}", DIM)

"""``discover``: scan once and print devices with facts, and their pool or the reason why none."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TextIO

from agent.cli.arguments import DEFAULT_CONFIG_FILE
from agent.cli.host import config_or_none, roots_of, wants_netlink
from agent.discovery.scan import scan
from agent.host import devlink
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.pools.assign import assign
from agent.pools.reasons import reason
from agent.pools.records import Pools
from agent.pools.view import document
from agent.told import funnel_text

ALL_NEEDS = frozenset({devlink.DDP, devlink.ENABLE_RDMA})
"""Facts that cost a devlink dump."""
_HEADER = ("DEVICE", "ROLE", "VENDOR", "DRIVER", "NUMA", "PF", "NETDEV", "POOL OR REASON")


def command(arguments: Namespace) -> int:
    """Scan, assign, print; 2 if the configuration has errors, else 0: an empty host is a finding.

    Raises ConfigError or UsageError.
    """
    roots = roots_of(arguments)
    config, loaded = config_or_none(arguments, DEFAULT_CONFIG_FILE)
    for line in loaded.lines() if loaded else ():
        print(line, file=sys.stderr)
    netlink = wants_netlink(arguments, roots)
    snapshot = scan(roots, netlink=netlink, needs=ALL_NEEDS)
    _print(assign(snapshot, config), arguments.output, sys.stdout)
    return loaded.exit_code if loaded else 0


def _print(pools: Pools, output: str, out: TextIO) -> None:
    if output == "json":
        json.dump(document(pools), out, indent=2)
        out.write("\n")
        return
    _print_devices(pools, out)
    _print_pools(pools, out)
    _print_skipped(pools.snapshot, out)


def _print_devices(pools: Pools, out: TextIO) -> None:
    rows = [_row(d, pools) for d in pools.snapshot.devices]
    if not rows:
        out.write("No network function or accelerator was found.\n")
        return
    out.writelines(line + "\n" for line in table([_HEADER, *rows]))


def _row(device: Device, pools: Pools) -> tuple[str, ...]:
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
        why.resource or why.text,
    )


def _role(device: Device) -> str:
    return f"{device.role} {device.num_vfs}/{device.total_vfs}" if device.total_vfs else device.role


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines of aligned columns; the last column is as long as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


def _print_pools(pools: Pools, out: TextIO) -> None:
    for pool in pools.pools:
        out.write(f"\n{pool.resource}: {len(pool.members)} devices\n")
        out.write(f"  {funnel_text(pool)}\n")
        out.writelines(f"  note: {note}\n" for note in pool.notes)
    for overlap in pools.overlaps:
        count = len(overlap.device_ids)
        out.write(f"\noverlap: {overlap.winner} has {count} devices that {overlap.loser} wants\n")


def _print_skipped(snapshot: Snapshot, out: TextIO) -> None:
    skipped = Counter(dict(snapshot.skipped_classes))
    if skipped:
        classes = ", ".join(f"{name} x{count}" for name, count in sorted(skipped.items()))
        out.write(f"\nPassed over, other PCI classes: {classes}\n")

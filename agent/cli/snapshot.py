"""``snapshot``: record what the agent reads of this host, for a bug report and for tests."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from agent.cli.discover import ALL_NEEDS
from agent.cli.inputs import roots_of, wants_netlink
from agent.discovery.scan import scan
from agent.errors import UsageError
from agent.host import sysfs
from agent.host.archive import SUFFIXES, write_archive
from agent.host.recording import Entry, Recorder, anonymous, answers_of_kernel
from agent.model.pci_class import class_need
from agent.model.snapshot import Snapshot
from agent.roots import Roots


def command(arguments: Namespace) -> int:
    """Write the recording to the file that was named, or to standard output for ``-``."""
    name: str = arguments.file
    if name != "-" and not name.endswith(SUFFIXES):
        raise UsageError(f"{name}: a recorded host is a file named *{SUFFIXES[0]}, or -")
    roots = roots_of(arguments)
    netlink = wants_netlink(arguments, roots)
    snapshot, tree = record(roots, netlink=netlink, macs=arguments.with_macs)
    packed = io.BytesIO()
    write_archive(tree, packed)
    _write(name, packed.getvalue())
    macs = "with MAC addresses" if arguments.with_macs else "no MAC addresses"
    print(
        f"{name}: {len(snapshot.devices)} functions, {len(tree)} entries, "
        f"{len(packed.getvalue())} bytes; no serial numbers, {macs}",
        file=sys.stderr,
    )
    return 0


def record(roots: Roots, *, netlink: bool, macs: bool) -> tuple[Snapshot, Mapping[str, Entry]]:
    """What a scan sees of a host, and the tree in which another scan sees the same."""
    recorder = Recorder(roots)
    with sysfs.observed(recorder):
        snapshot = scan(roots, netlink=netlink, needs=ALL_NEEDS)
        scan(roots, needs=frozenset({class_need("")}))  # for replays whose pools name classes
    if macs:
        for netdev in snapshot.netdev_owner:
            recorder.add(roots.sys / "class/net" / netdev / "address")
    tree = {**recorder.tree(), **answers_of_kernel(snapshot)}
    return snapshot, tree if macs else anonymous(tree)


def _write(name: str, content: bytes) -> None:
    if name == "-":
        sys.stdout.buffer.write(content)
        return
    try:
        Path(name).write_bytes(content)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error

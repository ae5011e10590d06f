"""What the agent says of a real kernel: traffic of VFs by netlink, a recording of the machine."""

from __future__ import annotations

import io
from pathlib import Path
from socket import if_nametoindex
from typing import TYPE_CHECKING

import pytest

from agent.cli.snapshot import record
from agent.discovery.scan import scan
from agent.host.archive import unpack, write_archive
from agent.host.vf_traffic import read_traffic, traffic_of_host
from agent.roots import Roots

from .machine import MAX_VFS, Nic

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def nic() -> Iterator[Nic]:
    one = Nic(0)
    one.pf.set_vfs(MAX_VFS)
    yield one
    one.pf.set_vfs(0)


def test_the_kernel_tells_the_traffic_of_every_vf(nic: Nic) -> None:
    assert nic.pf.netdev is not None
    found = read_traffic(if_nametoindex(nic.pf.netdev))
    assert sorted(found) == list(range(MAX_VFS))
    whole = traffic_of_host(scan(Roots()))
    assert [len(vfs) for vfs in whole.values()] == [MAX_VFS]


def test_a_recording_of_the_machine_shows_what_the_machine_showed(nic: Nic, tmp_path: Path) -> None:
    snapshot, tree = record(Roots(), netlink=True, macs=True)
    out = io.BytesIO()
    write_archive(tree, out)
    (tmp_path / "host.tar.gz").write_bytes(out.getvalue())
    (tmp_path / "host").mkdir()
    unpack(tmp_path / "host.tar.gz", tmp_path / "host")
    replayed = scan(Roots(tmp_path / "host"))
    assert len(replayed.devices) >= MAX_VFS
    assert replayed == snapshot

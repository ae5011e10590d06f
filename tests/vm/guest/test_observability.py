"""What the agent says of a real kernel: traffic of VFs by netlink, a recording of the machine."""

from __future__ import annotations

import io
import re
import socket
import urllib.request
from pathlib import Path
from socket import if_nametoindex
from typing import TYPE_CHECKING

import pytest

from agent.cli.snapshot import record
from agent.discovery.scan import scan
from agent.host.archive import unpack, write_archive
from agent.host.vf_stats import read_traffic, traffic_of_host
from agent.roots import Roots
from tests.e2e.conftest import pool

from .machine import MAX_VFS, Nic, await_truth, carrier, set_up
from .node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKETS, SIZE = 200, 1000


@pytest.fixture
def nic() -> Iterator[Nic]:
    one = Nic(0)
    one.pf.set_vfs(MAX_VFS)
    yield one
    one.pf.set_vfs(0)


def _name(nic: Nic) -> str:
    name = nic.pf.netdev
    assert name is not None
    return name


def test_the_kernel_returns_the_traffic_of_every_vf(nic: Nic) -> None:
    found = read_traffic(if_nametoindex(_name(nic)))
    assert sorted(found) == list(range(MAX_VFS))
    whole = traffic_of_host(scan(Roots()))
    assert [len(vfs) for vfs in whole.values()] == [MAX_VFS]


def test_a_recording_of_the_machine_gives_the_same_result_as_the_machine(
    nic: Nic, tmp_path: Path
) -> None:
    snapshot, tree = record(Roots(), netlink=True, macs=True)
    out = io.BytesIO()
    write_archive(tree, out)
    (tmp_path / "host.tar.gz").write_bytes(out.getvalue())
    (tmp_path / "host").mkdir()
    unpack(tmp_path / "host.tar.gz", tmp_path / "host")
    replayed = scan(Roots(tmp_path / "host"))
    assert len(replayed.devices) >= MAX_VFS
    assert replayed == snapshot


def test_the_real_traffic_of_a_vf_is_in_the_metrics(node: Node, nic: Nic) -> None:
    """The driver of this NIC counts nothing for its VFs: their own interfaces do."""
    sender, receiver, idle = nic.pf.vfs[:3]
    names = [await_truth(lambda vf=vf: vf.netdev) for vf in (sender, receiver)]  # type: ignore[misc]
    for name in (_name(nic), *names):
        set_up(name, up=True)
        await_truth(lambda name=name: carrier(name))  # type: ignore[misc] # mypy: of a default
    idle.bind("vfio-pci")
    options = ("--http-address", "127.0.0.1:0", "--vf-metrics")
    with node.agent(pool("net", drivers=["igbvf"]), options=options) as agent:
        url = f"http://{agent.wait_for('http.listening')['address']}/metrics"
        before = _scraped(url)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((names[0], 0))
            for _ in range(PACKETS):
                wire.send(b"\xff" * 6 + bytes(6) + b"\x88\xb5" + bytes(SIZE - 14))
        await_truth(lambda: _interface(names[1], "rx_packets") >= PACKETS)
        after = _scraped(url)
    for counter, vf, name in (("tx", sender, names[0]), ("rx", receiver, names[1])):
        grown = [
            after[f"sriov_vf_{counter}_{unit}", vf.address]
            - before[f"sriov_vf_{counter}_{unit}", vf.address]
            for unit in ("packets", "bytes")
        ]
        assert grown[0] >= PACKETS
        assert grown[1] >= PACKETS * SIZE
        assert after[f"sriov_vf_{counter}_bytes", vf.address] <= _interface(
            name, f"{counter}_bytes"
        )
    assert not any(address == idle.address for _, address in after), "nobody counts for it"


def _interface(name: str, counter: str) -> int:
    return int(Path(f"/sys/class/net/{name}/statistics/{counter}").read_text(encoding="ascii"))


def _scraped(url: str) -> dict[tuple[str, str], float]:
    """The counters of VFs, by name and PCI address."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        text = answer.read().decode()
    found = re.findall(r'^(sriov_vf_\w+)\{.*pciAddr="([^"]+)".*\} (\S+)$', text, re.MULTILINE)
    return {(name, address): float(number) for name, address, number in found}

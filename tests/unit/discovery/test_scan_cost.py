"""What a scan may cost: calls to the kernel for each further function, counted, never timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agent.discovery.scan import scan
from agent.host.hardware import CONNECTX6, E810, VfHardware
from agent.host.layout import HostBuilder
from tests.support.host_calls import host_calls

PF = "0000:3b:00.0"


def calls_per_vf(root: Path, vf: VfHardware, *, rdma: bool = False) -> Counter[str]:
    """The calls that one more VF makes."""
    counts = []
    for vfs in (8, 9):
        host = HostBuilder(root / str(vfs))
        host.pf(PF, "ens1")
        for index, address in enumerate(host.add_vfs(PF, vfs, vf)):
            if rdma:
                host.rdma(address, f"mlx5_{index}")
        with host_calls() as calls:
            scan(host.roots)
        counts.append(calls.counts)
    return counts[1] - counts[0]


def test_a_vf_on_vfio_costs_five_opens_and_three_links(tmp_path: Path) -> None:
    assert calls_per_vf(tmp_path, E810.vf.vfio) == {"open": 5, "readlink": 3, "access": 2}


def test_a_vf_with_a_netdev_costs_three_files_and_a_link_more(tmp_path: Path) -> None:
    assert calls_per_vf(tmp_path, E810.vf) == {"open": 8, "readlink": 4, "access": 2}


def test_a_vf_with_an_rdma_device_costs_four_files_and_a_link_more(tmp_path: Path) -> None:
    cost = calls_per_vf(tmp_path, CONNECTX6.vf, rdma=True)
    assert cost == {"open": 12, "readlink": 5, "access": 1}


@pytest.mark.parametrize("listed", ["0000:00:00.0", "0000:00:1f.3"])
def test_a_function_of_another_class_costs_one_file(tmp_path: Path, listed: str) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1")
    with host_calls() as before:
        scan(host.roots)
    host.write(host.folder(listed) / "class", "0x060000")
    host.link(host.root / "sys/bus/pci/devices" / listed, host.folder(listed))
    with host_calls() as after:
        scan(host.roots)
    assert after.counts - before.counts == {"open": 2, "access": 1}

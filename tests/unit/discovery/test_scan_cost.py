"""What a scan may cost: calls to the kernel for each further function, counted, never timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.discovery.scan import Scanner, scan
from tests.support.hardware import CONNECTX6, E810, VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.host_calls import host_calls

PF = "0000:3b:00.0"
OTHER_PF = "0000:5e:00.0"


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


def test_for_a_vf_whose_group_is_not_listed_by_vfio_the_group_name_is_read(
    tmp_path: Path,
) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1", vfs=0)
    host.add_vfs(PF, 2, E810.vf.vfio)
    with host_calls() as shown:
        scan(host.roots)
    group = (host.folder(host.vfs(PF)[0]) / "iommu_group").readlink().name
    (host.root / "sys/class/vfio" / group).unlink()
    with host_calls() as hidden:
        scan(host.roots)
    assert hidden.counts - shown.counts == {"access": 1}


def test_a_vf_with_a_netdev_costs_three_files_and_a_link_more(tmp_path: Path) -> None:
    assert calls_per_vf(tmp_path, E810.vf) == {"open": 8, "readlink": 4, "access": 2}


def test_a_vf_with_an_rdma_device_costs_four_files_and_a_link_more(tmp_path: Path) -> None:
    cost = calls_per_vf(tmp_path, CONNECTX6.vf, rdma=True)
    assert cost == {"open": 12, "readlink": 5, "access": 1}


@pytest.mark.parametrize("listed", ["0000:00:00.0", "0000:00:1f.3"])
def test_reading_a_function_of_another_class_costs_one_file_and_a_link(
    tmp_path: Path, listed: str
) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1")
    with host_calls() as before:
        scan(host.roots)
    host.write(host.folder(listed) / "class", "0x060000")
    host.link(host.root / "sys/bus/pci/devices" / listed, host.folder(listed))
    with host_calls() as after:
        scan(host.roots)
    assert after.counts - before.counts == {"open": 2, "readlink": 1, "access": 1}


def calls_of_rescan(
    root: Path, *, own: int, others: int, touched: Callable[[HostBuilder], set[str]]
) -> Counter[str]:
    """The calls of a rescan on a host of two PFs with so many VFs, all with RDMA devices."""
    host = HostBuilder(root / f"{own}-{others}")
    for pf, netdev, vfs in ((PF, "ens1", own), (OTHER_PF, "ens2", others)):
        host.pf(pf, netdev, CONNECTX6)
        for index, address in enumerate(host.add_vfs(pf, vfs, CONNECTX6.vf)):
            host.rdma(address, f"mlx5_{netdev}_{index}")
    scanner = Scanner(host.roots)
    scanner.scan()
    with host_calls() as calls:
        scanner.scan(touched=touched(host))
    assert scanner.whole == 1
    return calls.counts


TOUCHED: dict[str, Callable[[HostBuilder], set[str]]] = {
    "nothing": lambda _: set(),
    "a VF": lambda host: {host.vfs(PF)[0]},
    "a PF": lambda _: {PF},
    "a PF and its VFs": lambda host: {PF, *host.vfs(PF)},
}


@pytest.mark.parametrize("touched", TOUCHED.values(), ids=TOUCHED)
def test_a_rescan_reads_nothing_of_functions_that_were_not_touched(
    tmp_path: Path, touched: Callable[[HostBuilder], set[str]]
) -> None:
    few, many = (
        calls_of_rescan(tmp_path, own=4, others=others, touched=touched) for others in (4, 12)
    )
    assert few == many


@pytest.mark.parametrize("touched", TOUCHED.values(), ids=TOUCHED)
def test_a_rescan_asks_nothing_of_sub_functions_of_other_pfs(
    tmp_path: Path, touched: Callable[[HostBuilder], set[str]]
) -> None:
    counts = []
    for others in (2, 6):
        host = HostBuilder(tmp_path / str(others))
        host.pf(PF, "ens1", CONNECTX6, vfs=2)
        host.sf(PF, 1, "ens1s1")
        host.pf(OTHER_PF, "ens2", CONNECTX6)
        for number in range(others):
            host.sf(OTHER_PF, 10 + number, f"ens2s{number}")
        scanner = Scanner(host.roots)
        scanner.scan()
        with host_calls() as calls:
            scanner.scan(touched=touched(host))
        counts.append(calls.counts)
    assert counts[0] == counts[1]


def test_a_rescan_of_a_vf_costs_one_link_for_each_other_vf_of_its_pf(tmp_path: Path) -> None:
    few, many = (
        calls_of_rescan(tmp_path, own=own, others=4, touched=TOUCHED["a VF"]) for own in (4, 12)
    )
    assert many - few == {"readlink": 8}


def test_a_rescan_without_touched_functions_only_lists_what_every_scan_lists(
    tmp_path: Path,
) -> None:
    calls = calls_of_rescan(tmp_path, own=4, others=4, touched=TOUCHED["nothing"])
    assert calls == {"open": 18, "listdir": 5, "access": 4}


def test_a_rescan_lists_the_nodes_of_rdma_devices_only_for_one_that_may_get_more(
    tmp_path: Path,
) -> None:
    """Those of umad come with their module, which may be loaded after that of uverbs."""
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1", CONNECTX6)
    complete, partial = host.add_vfs(PF, 2, CONNECTX6.vf)
    host.rdma(complete, "mlx5_0")
    host.rdma(partial, "mlx5_1", umad=False)
    scanner = Scanner(host.roots)
    scanner.scan()
    listings = {}
    for vf in (complete, partial):
        with host_calls() as calls:
            scanner.scan(touched={vf})
        listings[vf] = calls.counts["listdir"]
    assert listings[partial] - listings[complete] == 2

"""What one scan makes of a laid-out host: functions, their VFs, drivers and groups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from agent.discovery.scan import scan
from agent.kinds import ACCELERATOR, NET_DEVICE
from agent.model.device import Device, Netdev, Role
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from tests.support.hardware import ACC100, E810, X710, Hardware, VfHardware
from tests.support.host_builder import HostBuilder

PF = "0000:3b:00.0"
VF0 = "0000:3b:01.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    return HostBuilder(tmp_path)


def device(host: HostBuilder, name: str) -> Device:
    return scan(host.roots).by_id[name]


def test_a_pf_is_read_with_all_facts_of_the_host(host: HostBuilder) -> None:
    host.pf(PF, "ens1", numa=1)
    host.write(host.folder(PF) / "acpi_index", 3)
    assert scan(host.roots).devices == (
        Device(
            id=PF,
            kind=NET_DEVICE,
            role=Role.PF,
            pci_address=PF,
            vendor="8086",
            device="1592",
            pci_class=0x020000,
            driver="ice",
            numa_node=1,
            pf_address=PF,
            pf_name="ens1",
            total_vfs=128,
            num_vfs=0,
            netdevs=(
                Netdev(
                    name="ens1",
                    ifindex=1,
                    link_type="ether",
                    admin_up=True,
                    carrier=True,
                    operstate="up",
                    speed_mbps=25000,
                ),
            ),
            iommu_group=0,
            acpi_index="3",
        ),
    )


def test_a_vf_is_read_with_all_facts_of_the_host(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=2, numa=1)
    assert device(host, "0000:3b:01.1") == Device(
        id="0000:3b:01.1",
        kind=NET_DEVICE,
        role=Role.VF,
        pci_address="0000:3b:01.1",
        vendor="8086",
        device="1889",
        pci_class=0x020000,
        driver="iavf",
        numa_node=1,
        pf_address=PF,
        pf_name="ens1",
        index=1,
        netdevs=(Netdev("ens1v1", ifindex=3, link_type="ether", admin_up=False),),
        iommu_group=2,
    )


def test_a_vf_on_vfio_has_a_group_and_no_netdev(host: HostBuilder) -> None:
    host.pf(PF, "ens1")
    host.add_vfs(PF, 1, E810.vf.vfio)
    vf = device(host, VF0)
    assert (vf.driver, vf.iommu_group, vf.noiommu, vf.netdevs) == ("vfio-pci", 1, False, ())


def test_a_vf_without_driver_is_kept_in_the_snapshot(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=1)
    host.set_driver(VF0, None)
    assert device(host, VF0).driver is None


def test_an_address_without_iommu_group_has_none(host: HostBuilder) -> None:
    host.function(PF, X710, iommu=False)
    assert device(host, PF).iommu_group is None


def test_a_group_that_vfio_creates_without_an_iommu_is_recognised(host: HostBuilder) -> None:
    host.function(PF, attrs.evolve(X710, driver="vfio-pci"), iommu=False)
    group = host.iommu_group(PF, noiommu=True)
    assert (device(host, PF).iommu_group, device(host, PF).noiommu) == (group, True)


def test_a_vf_on_vfio_without_an_iommu_is_recognised(host: HostBuilder) -> None:
    host.pf(PF, "ens1")
    host.add_vfs(PF, 1, attrs.evolve(E810.vf.vfio, iommu=False))
    host.iommu_group(VF0, noiommu=True)
    assert device(host, VF0).noiommu


@pytest.mark.parametrize("driver", ["uio", "igb_uio", "uio_pci_generic"])
def test_uio_entries_belong_to_functions_on_uio_drivers(host: HostBuilder, driver: str) -> None:
    host.pf(PF, "ens1", vfs=1)
    host.set_driver(VF0, driver)
    assert device(host, VF0).uio == ()
    name = host.uio(VF0)
    assert device(host, VF0).uio == (name,)


def test_an_unknown_numa_node_is_none(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=1, numa=None)
    (host.folder(VF0) / "numa_node").unlink()
    assert [d.numa_node for d in scan(host.roots).devices] == [None, None]
    (host.folder(VF0) / "numa_node").write_text(f"{2**31}\n")  # no kernel's int
    assert device(host, VF0).numa_node is None


def test_vf_indexes_come_from_the_pf_and_not_from_addresses(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=3)
    folder = host.folder(PF)
    for index, vf in enumerate(("0000:3b:01.2", "0000:3b:01.0", "0000:3b:01.1")):
        (folder / f"virtfn{index}").unlink()
        host.link(folder / f"virtfn{index}", host.folder(vf))
    assert {d.id: d.index for d in scan(host.roots).devices if d.role is Role.VF} == {
        "0000:3b:01.2": 0,
        "0000:3b:01.0": 1,
        "0000:3b:01.1": 2,
    }


def test_a_vf_of_a_pf_that_appears_later_on_the_bus_is_read_with_it(host: HostBuilder) -> None:
    vf, pf = "0000:05:00.0", "0000:05:00.3"
    host.pf(pf, "enp5s0", X710)
    host.function(vf, Hardware("8086", "154c", "iavf"))
    host.link(host.folder(vf) / "physfn", host.folder(pf))
    host.link(host.folder(pf) / "virtfn0", host.folder(vf))
    found = device(host, vf)
    assert (found.role, found.pf_address, found.pf_name, found.index) == (
        Role.VF,
        pf,
        "enp5s0",
        0,
    )


def test_a_vf_whose_pf_is_not_here_keeps_the_address_that_its_link_names(host: HostBuilder) -> None:
    host.function(VF0, Hardware("8086", "1889", "iavf"))
    host.link(host.folder(VF0) / "physfn", host.folder(PF))
    snapshot = scan(host.roots)
    vf = snapshot.by_id[VF0]
    assert (vf.role, vf.pf_address, vf.pf_name, vf.index) == (Role.VF, PF, None, None)
    assert snapshot.pf_of(vf) is None


def test_a_pf_on_vfio_has_no_name_and_its_vfs_still_have_its_address(host: HostBuilder) -> None:
    host.pf(PF, None, attrs.evolve(E810, driver="vfio-pci"), vfs=1)
    vf = device(host, VF0)
    assert (vf.pf_address, vf.pf_name, vf.index) == (PF, None, 0)


def test_existing_vfs_count_before_the_pf_reports_their_number(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=2)
    host.write(host.folder(PF) / "sriov_numvfs", 0)
    assert device(host, PF).num_vfs == 2


def test_an_accelerator_is_found_with_its_vfs(host: HostBuilder) -> None:
    host.accelerator("0000:b1:00.0", ACC100, vfs=2)
    found = scan(host.roots).devices
    assert [(d.kind, d.role, d.device, d.index) for d in found] == [
        (ACCELERATOR, Role.PF, "0d5c", None),
        (ACCELERATOR, Role.VF, "0d5d", 0),
        (ACCELERATOR, Role.VF, "0d5d", 1),
    ]


def test_functions_of_other_classes_are_counted_by_class(host: HostBuilder) -> None:
    nvme = Hardware("144d", "a80a", "nvme", 0x010802, total_vfs=4, vf=VfHardware("a80a", None))
    host.pf("0000:01:00.0", None, nvme, vfs=3)
    host.function("0000:00:1f.0", Hardware("8086", "a1c1", None, 0x060100))
    host.function("0000:00:00.0", Hardware("8086", "2020", None, 0x060000))
    snapshot = scan(host.roots)
    assert snapshot.devices == ()
    assert snapshot.skipped_classes == (("0x0108", 4), ("0x0600", 1), ("0x0601", 1))


def test_domains_of_more_than_four_digits_are_read_and_sorted_last(host: HostBuilder) -> None:
    addresses = ("10000:01:00.0", "ffff:01:00.0", "0000:ff:00.0", "0000:3b:00.1", "0000:3b:00.0")
    for address in addresses:
        host.pf(address)
    assert [d.id for d in scan(host.roots).devices] == list(reversed(addresses))


def test_entries_of_the_bus_that_are_not_addresses_are_ignored(host: HostBuilder) -> None:
    host.pf(PF, "ens1")
    (host.root / "sys/bus/pci/devices/README").mkdir()
    assert [d.id for d in scan(host.roots).devices] == [PF]


def test_a_host_of_plain_folders_without_links_is_read_too(tmp_path: Path) -> None:
    bus, net = tmp_path / "sys/bus/pci/devices", tmp_path / "sys/class/net"
    for name, content in {"vendor": "0x15b3", "device": "0x101e", "class": "0x020000"}.items():
        for function in ("0000:03:00.0", "0000:03:00.2"):
            (bus / function).mkdir(parents=True, exist_ok=True)
            (bus / function / name).write_text(content)
    (bus / "0000:03:00.0/virtfn0").symlink_to("../0000:03:00.2")
    (bus / "0000:03:00.2/physfn").symlink_to("../0000:03:00.0")
    for function, netdev in (("0000:03:00.0", "p0"), ("0000:03:00.2", "p0v0")):
        (bus / function / "net" / netdev).mkdir(parents=True)
        (net / netdev).mkdir(parents=True)
        (net / netdev / "type").write_text("1\n")
    vf = scan(Roots(tmp_path)).by_id["0000:03:00.2"]
    assert (vf.pf_name, vf.index, vf.netdevs) == ("p0", 0, (Netdev("p0v0", link_type="ether"),))


@pytest.mark.parametrize("missing", ["", "sys", "sys/bus/pci"])
def test_a_host_without_a_pci_bus_has_no_functions(tmp_path: Path, missing: str) -> None:
    if missing:
        (tmp_path / missing).mkdir(parents=True)
    assert scan(Roots(tmp_path / "nowhere")) == scan(Roots(tmp_path)) == Snapshot()


def test_two_scans_of_an_unchanged_host_are_equal(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=4)
    assert scan(host.roots) == scan(host.roots)


def test_a_scan_leaves_no_descriptor_open(host: HostBuilder) -> None:
    host.pf(PF, "ens1", vfs=4)
    host.sf(PF, 88, "ens1s88")
    host.rdma(PF, "mlx5_0")
    scan(host.roots)
    before = len(list(Path("/proc/self/fd").iterdir()))
    scan(host.roots)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


_STARVED = """
import resource, sys
from pathlib import Path
from agent.discovery.scan import scan
from agent.roots import Roots
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
scan(Roots(Path(sys.argv[1])))
"""


def test_a_process_without_resources_does_not_treat_the_host_as_empty(host: HostBuilder) -> None:
    host.pf(PF, "ens1")
    run = [sys.executable, "-c", _STARVED, str(host.root)]
    done = subprocess.run(run, check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("OSError: [Errno 24] Too many open files")

"""Functions bound to vfio, by whatever driver, and the others in their IOMMU groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.discovery.confirm import changed_facts
from agent.discovery.scan import Scanner, scan
from agent.model.device import OtherFunction
from tests.support.hardware import CONNECTX6, E810
from tests.support.host_builder import HostBuilder
from tests.support.vfio import share_group, vfio_device

PF = "0000:3b:00.0"
USB = "0000:00:14.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1")
    host.add_vfs(PF, 2, E810.vf.vfio)
    return host


def function_of_another_class(host: HostBuilder, driver: str | None) -> None:
    host.write(host.folder(USB) / "class", "0x0c0330")
    host.link(host.root / "sys/bus/pci/devices" / USB, host.folder(USB))
    host.set_driver(USB, driver)


@pytest.mark.parametrize(
    ("driver", "has_device", "is_vfio"),
    [
        ("vfio-pci", False, True),
        ("mlx5_vfio_pci", True, True),
        ("nvidia", True, True),
        ("nvidia", False, False),
    ],
)
def test_a_function_uses_vfio_by_its_driver_or_by_the_device_that_the_driver_created(
    host: HostBuilder,
    driver: str,
    has_device: bool,  # noqa: FBT001 - a parameter of the test
    is_vfio: bool,  # noqa: FBT001 - likewise
) -> None:
    vf = host.vfs(PF)[0]
    host.set_driver(vf, driver)
    if has_device:
        vfio_device(host, vf, 7)
    device = scan(host.roots).by_id[vf]
    assert (device.is_vfio, device.vfio_device) == (is_vfio, "vfio7" if has_device else None)


def test_a_pf_on_vfio_has_its_device_too(tmp_path: Path) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF)
    host.set_driver(PF, "vfio-pci")
    vfio_device(host, PF, 3)
    assert scan(host.roots).by_id[PF].vfio_device == "vfio3"


def test_functions_of_other_classes_are_noted_where_they_share_a_group_with_vfio(
    host: HostBuilder,
) -> None:
    vf = host.vfs(PF)[0]
    function_of_another_class(host, "xhci_hcd")
    assert scan(host.roots).group_mates == ()
    group = share_group(host, USB, vf)
    snapshot = scan(host.roots)
    assert snapshot.group_mates == (OtherFunction(USB, 0x0C0330, "xhci_hcd", group),)
    assert list(snapshot.shared_groups) == [group]
    host.set_driver(vf, "iavf")
    assert scan(host.roots).group_mates == ()


def test_a_rescan_sees_another_driver_of_a_mate_of_another_class(host: HostBuilder) -> None:
    function_of_another_class(host, "xhci_hcd")
    share_group(host, USB, host.vfs(PF)[0])
    scanner = Scanner(host.roots)
    scanner.scan()
    host.set_driver(USB, None)
    (mate,) = scanner.scan(touched={USB}).group_mates
    assert mate.driver is None


def test_a_rescan_without_touched_functions_sees_nodes_appear_and_disappear(
    host: HostBuilder,
) -> None:
    scanner = Scanner(host.roots)
    group = f"/dev/vfio/{scanner.scan().by_id[host.vfs(PF)[0]].iommu_group}"
    (host.root / group.lstrip("/")).unlink()
    assert scanner.scan(touched=()).nodes.lacks(group)
    host.node(group.removeprefix("/dev/"))
    assert not scanner.scan(touched=()).nodes.lacks(group)


def test_facts_that_decide_on_nodes_are_confirmed_or_named(host: HostBuilder) -> None:
    other = "0000:5e:00.0"
    host.pf(other, None, CONNECTX6)
    rdma, vdpa = host.add_vfs(other, 2, CONNECTX6.vf)
    host.rdma(rdma, "mlx5_1")
    host.vdpa(vdpa, "vhost")
    host.uio(vdpa)
    on_vfio, moved = host.vfs(PF)
    devices = scan(host.roots).devices
    assert changed_facts(host.roots, devices) == {}
    known = {d.id: d for d in devices}
    host.iommu_group(moved)
    host.set_driver(on_vfio, "iavf")
    host.write(host.root / "sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_9")
    (host.root / "sys/bus/vdpa/devices/vdpa0").unlink()
    was, now = known[moved].iommu_group, host.folder(moved) / "iommu_group"
    assert changed_facts(host.roots, devices) == {
        on_vfio: "its driver is iavf, was vfio-pci",
        moved: f"its IOMMU group is {now.readlink().name}, was {was}",
        rdma: "its RDMA devices are others",
        vdpa: "its vDPA devices are others",
    }


def test_a_function_that_no_longer_exists_is_named(host: HostBuilder) -> None:
    devices = scan(host.roots).devices
    vf = host.vfs(PF)[1]
    host.remove(vf)
    assert changed_facts(host.roots, devices) == {vf: "it is no longer on the host"}


def test_another_vfio_or_uio_device_of_a_function_is_named(host: HostBuilder) -> None:
    on_vfio, on_uio = host.vfs(PF)
    vfio_device(host, on_vfio, 7)
    host.set_driver(on_uio, "igb_uio")
    name = host.uio(on_uio)
    devices = scan(host.roots).devices
    assert changed_facts(host.roots, devices) == {}
    for folder, known, now in (
        (host.folder(on_vfio) / "vfio-dev", "vfio7", "vfio8"),
        (host.folder(on_uio) / "uio", name, "uio9"),
    ):
        (folder / known).rename(folder / now)
    assert changed_facts(host.roots, devices) == {
        on_vfio: "its VFIO device is another",
        on_uio: "its UIO device is another",
    }

"""Facts of a few devices read anew: what only a scan reads is kept from the scan."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.discovery.refresh import refresh
from agent.discovery.scan import Scanner, scan
from tests.support.hardware import ACC100, CONNECTX6, E810
from tests.support.host_builder import HostBuilder, Port
from tests.support.host_calls import host_calls

PF = "0000:03:00.0"
VF0 = "0000:03:01.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    """One of everything, in switchdev mode."""
    host = HostBuilder(tmp_path)
    host.pf(PF, None, CONNECTX6, vfs=2)
    host.netdev("up", PF, port=Port("p0", "ab"))
    host.netdev("rep0", PF, port=Port("pf0vf0", "ab"))
    host.rdma(VF0, "mlx5_2")
    host.vdpa(host.vfs(PF)[1], "vhost")
    host.rdma(host.sf(PF, 88, "up_s88"), "mlx5_4")
    host.pf("0000:3b:00.0", "ens1", E810)
    host.add_vfs("0000:3b:00.0", 2, E810.vf.vfio)
    host.accelerator("0000:b1:00.0", ACC100, vfs=1)
    host.write(
        host.root / "devlink.json",
        f'{{"info": {{"pci/{PF}": {{"versions": {{"running": {{"fw.app.name": "Comms"}}}}}}}}}}',
    )
    return host


def test_on_an_unchanged_host_a_refresh_of_every_device_equals_the_scan(host: HostBuilder) -> None:
    devices = scan(host.roots).devices
    assert refresh(host.roots, devices) == devices
    for device in devices:
        assert refresh(host.roots, (device,)) == (device,)


def test_rdma_nodes_that_return_from_a_pod_are_seen(host: HostBuilder) -> None:
    bare = scan(host.roots).by_id[host.vfs(PF)[1]]
    rdma = host.rdma(bare.id, "mlx5_3")
    (fresh,) = refresh(host.roots, (bare,))
    assert (bare.rdma, fresh.rdma) == ((), (rdma,))


def test_a_change_of_the_driver_is_seen(host: HostBuilder) -> None:
    known = scan(host.roots).by_id[VF0]
    host.set_driver(VF0, "vfio-pci")
    (fresh,) = refresh(host.roots, (known,))
    assert (known.driver, fresh.driver) == ("mlx5_core", "vfio-pci")
    assert (fresh.index, fresh.pf_name, fresh.representor) == (0, "up", "rep0")


def test_devices_that_no_longer_exist_are_left_out(host: HostBuilder) -> None:
    known = scan(host.roots).by_id
    host.remove_vfs("0000:3b:00.0")
    wanted = (known["0000:3b:01.0"], known[VF0])
    assert refresh(host.roots, wanted) == (known[VF0],)


def test_a_host_that_cannot_be_read_is_not_treated_as_one_without_devices(
    host: HostBuilder, tmp_path: Path
) -> None:
    devices = scan(host.roots).devices
    (tmp_path / "sys").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        refresh(host.roots, devices)


def test_with_the_data_of_a_scan_every_device_has_the_same_record(host: HostBuilder) -> None:
    scanner = Scanner(host.roots)
    devices = scanner.scan().devices
    for device in devices:
        assert refresh(host.roots, (device,), scanner.rdma) == (device,)
    moved = scanner.scan().by_id[host.vfs(PF)[1]]
    rdma = host.rdma(moved.id, "mlx5_3")
    (fresh,) = refresh(host.roots, (moved,), scanner.rdma)
    assert fresh.rdma == (rdma,)


def test_with_the_data_of_a_scan_rdma_devices_of_others_are_not_read(tmp_path: Path) -> None:
    calls = []
    for others in (1, 9):
        host = HostBuilder(tmp_path / str(others))
        host.pf(PF, "up", CONNECTX6, vfs=others + 1)
        for index, vf in enumerate(host.vfs(PF)):
            host.rdma(vf, f"mlx5_{index}")
        scanner = Scanner(host.roots)
        device = scanner.scan().by_id[VF0]
        with host_calls() as made:
            assert refresh(host.roots, (device,), scanner.rdma) == (device,)
        calls.append(made.counts.total())
    assert calls[0] == calls[1]

"""The builder of hosts: its trees hang together as the kernel's do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hardware import CONNECTX6, E810
from tests.support.host_builder import HostBuilder

PF = "0000:3b:00.0"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    """A host with everything that the builder can make."""
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1", vfs=3)
    host.pf("0000:03:00.0", "ens3", CONNECTX6, vfs=1)
    host.rdma("0000:03:00.0", "mlx5_0")
    host.vdpa("0000:03:01.0", "vhost")
    host.sf("0000:03:00.0", 88, "ens3s88")
    host.virtio_nic("0000:00:03.0", "eth0")
    host.accelerator("0000:b1:00.0", vfs=1)
    host.enslave("ens1", "bond0")
    host.uio("0000:b1:00.0")
    return host


def test_every_link_leads_somewhere_inside_the_host(host: HostBuilder) -> None:
    links = [path for path in host.root.rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert not link.readlink().is_absolute()
        assert link.resolve(strict=True).is_relative_to(host.root)


def test_no_two_functions_share_an_address(tmp_path: Path) -> None:
    host = HostBuilder(tmp_path)
    pfs = ("0000:01:00.0", "0000:01:00.1", "0000:04:00.0")
    addresses = {host.vf_address(pf, index) for pf in pfs for index in range(256)}
    assert len(addresses | set(pfs)) == 3 * 256 + 3


def test_vfs_are_added_up_to_a_count_and_removed(host: HostBuilder) -> None:
    first = host.vfs(PF)
    assert host.add_vfs(PF, 5, E810.vf.vfio)[:3] == first
    assert len(host.vfs(PF)) == 5
    host.remove_vfs(PF)
    assert host.vfs(PF) == ()
    assert host.netdevs(PF) == ("ens1",)
    assert (host.folder(PF) / "sriov_numvfs").read_text() == "0\n"
    left = {path.name for path in (host.root / "sys/class/net").iterdir()}
    assert not {name for name in left if name.startswith("ens1v")}


def test_an_unplugged_function_leaves_nothing_behind(host: HostBuilder) -> None:
    host.remove("0000:00:03.0")
    assert not (host.root / "sys/class/net/eth0").is_symlink()
    assert not (host.root / "sys/bus/pci/devices/0000:00:03.0").is_symlink()
    assert not host.folder("0000:00:03.0").exists()
